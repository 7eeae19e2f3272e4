// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/utf8.h"
#include "planner/codec/program_check.h"
#include "proto/program/program_proto.h"

namespace remesh::proto {
namespace {

using google::protobuf::RepeatedField;
using planner::CheckIn;
using planner::Numbered;

absl::Status CheckEach(const char* field, const RepeatedField<int32_t>& column, int64_t least,
                       int64_t end) {
  for (int i = 0; i < column.size(); ++i) {
    if (column[i] < least || column[i] >= end)
      return CheckIn(Numbered(field, i), column[i], least, end);
  }
  return absl::OkStatus();
}

template <typename Column>
absl::Status CheckSize(const char* field, const Column& column, int64_t size) {
  if (static_cast<int64_t>(column.size()) == size) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(column.size(), " numbers"),
                      absl::StrCat("must be ", size));
}

// Checks that `counts` are at least `least` each and add up to `size`.
absl::Status CheckCounts(const char* field, const RepeatedField<int32_t>& counts, int64_t least,
                         int64_t size) {
  RETURN_IF_ERROR(CheckEach(field, counts, least, size + 1));
  int64_t sum = 0;
  for (const int32_t count : counts) sum += count;
  if (sum == size) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(sum, " in all"), absl::StrCat("must be ", size));
}

// The running sums of `steps`, none of them below 0.
absl::StatusOr<std::vector<int32_t>> FromSteps(const char* field,
                                               const RepeatedField<int32_t>& steps) {
  std::vector<int32_t> numbers;
  numbers.reserve(static_cast<size_t>(steps.size()));
  int64_t last = 0;
  for (int i = 0; i < steps.size(); ++i) {
    last += steps[i];
    if (last < 0 || last >= INT32_MAX) return CheckIn(Numbered(field, i), last, 0, INT32_MAX);
    numbers.push_back(static_cast<int32_t>(last));
  }
  return numbers;
}

absl::StatusOr<std::vector<NamedProgram::Array>> ReadNames(const v1::ProgramNames& names) {
  RETURN_IF_ERROR(CheckSize("prefix_bytes", names.prefix_bytes(), names.middles_size()));
  RETURN_IF_ERROR(CheckSize("suffix_bytes", names.suffix_bytes(), names.middles_size()));
  std::vector<NamedProgram::Array> arrays;
  arrays.reserve(static_cast<size_t>(names.middles_size()));
  int64_t bytes = 0;
  std::string_view before;
  for (int i = 0; i < names.middles_size(); ++i) {
    const int64_t prefix = names.prefix_bytes(i), suffix = names.suffix_bytes(i);
    const auto size = static_cast<int64_t>(before.size());
    RETURN_IF_ERROR(CheckIn(Numbered("prefix_bytes", i), prefix, 0, size + 1));
    RETURN_IF_ERROR(CheckIn(Numbered("suffix_bytes", i), suffix, 0, size - prefix + 1));
    if (!BeginsCharacter(before, prefix) || !BeginsCharacter(before, size - suffix))
      return InvalidField(Numbered("prefix_bytes", i), absl::StrCat(prefix, ", ", suffix),
                          "must not cut a character");
    bytes += prefix + suffix + static_cast<int64_t>(names.middles(i).size());
    if (bytes > kProgramNameBytesMax)
      return InvalidField("middles", absl::StrCat(bytes, " bytes"),
                          absl::StrCat("must make at most ", kProgramNameBytesMax));
    std::string name(before.substr(0, static_cast<size_t>(prefix)));
    name += names.middles(i);
    name += before.substr(static_cast<size_t>(size - suffix));
    arrays.push_back({.name = std::move(name), .shape = {}});
    before = arrays.back().name;
  }
  return arrays;
}

constexpr planner::ProgramFields kFields = {.parts = "schedule.parts",
                                            .rounds = "schedule.rounds",
                                            .hops = "schedule.hops",
                                            .min_part_bits = "schedule.min_part_bits",
                                            .slack_bits = "schedule.slack_bits",
                                            .windows = "schedule.windows",
                                            .classes = "classes.atoms",
                                            .atom_begins = "classes.atom_begins",
                                            .atom_extents = "classes.atom_extents",
                                            .tapes = "tapes.atoms",
                                            .tape_numbers = "tapes.number_steps",
                                            .atoms = "tapes.atom_steps",
                                            .segment_tapes = "segments.tape_steps",
                                            .segment_begins = "segments.begins",
                                            .segment_sizes = "segments.sizes",
                                            .segment_numbers = "segments.number_steps",
                                            .cut_positions = "segments.cut_positions",
                                            .move_hops = "moves.hops",
                                            .move_rounds = "moves.round_steps",
                                            .move_segments = "moves.segment_steps",
                                            .move_from_devices = "moves.from_devices",
                                            .move_to_devices = "moves.to_devices",
                                            .move_from_spaces = "moves.from_spaces",
                                            .move_to_spaces = "moves.to_spaces",
                                            .move_begins = "moves.stripe_begins",
                                            .move_sizes = "moves.stripe_sizes"};

// Makes a program of the columns of a message. Checks only that columns are as long as each other
// and that their numbers are in the range of the program's fields; CheckProgram() checks their
// meaning.
class Reader {
 public:
  explicit Reader(const v1::HostProgram& message) : message_(message) {}

  absl::StatusOr<NamedProgram> Read() && {
    named_.fingerprint = message_.fingerprint();
    named_.devices.assign(message_.devices().begin(), message_.devices().end());
    ReadSchedule(message_.schedule());
    auto arrays = ReadNames(message_.names());
    if (!arrays.ok()) return AtField("names", arrays.status());
    named_.arrays = *std::move(arrays);
    RETURN_IF_ERROR(AtField("classes", ReadClasses(message_.classes())));
    RETURN_IF_ERROR(AtField("tapes", ReadTapes(message_.tapes())));
    RETURN_IF_ERROR(AtField("segments", ReadSegments(message_.segments())));
    RETURN_IF_ERROR(AtField("segments", ReadCuts(message_.segments())));
    RETURN_IF_ERROR(AtField("moves", ReadMoves(message_.moves())));
    RETURN_IF_ERROR(AtField("moves", ReadParts(message_.moves())));
    std::vector<planner::ProgramArray> known;
    known.reserve(named_.arrays.size());
    for (const NamedProgram::Array& array : named_.arrays) {
      known.push_back({&array.shape, array.bits_per_element});
    }
    RETURN_IF_ERROR(planner::CheckProgram(program_, known, std::ssize(named_.devices), kFields));
    return std::move(named_);
  }

 private:
  void ReadSchedule(const v1::ProgramSchedule& schedule) {
    program_.schedule = {.parts = schedule.parts(),
                         .rounds = schedule.rounds(),
                         .hops = schedule.hops(),
                         .min_part_bits = schedule.min_part_bits(),
                         .slack_bits = schedule.slack_bits()};
    program_.windows = schedule.windows();
  }

  absl::Status ReadClasses(const v1::ProgramClasses& classes) {
    RETURN_IF_ERROR(CheckCounts("arrays", classes.arrays(), 1, std::ssize(named_.arrays)));
    RETURN_IF_ERROR(CheckSize("element_bits", classes.element_bits(), classes.arrays_size()));
    RETURN_IF_ERROR(CheckSize("ranks", classes.ranks(), classes.arrays_size()));
    RETURN_IF_ERROR(CheckSize("atoms", classes.atoms(), classes.arrays_size()));
    RETURN_IF_ERROR(CheckCounts("ranks", classes.ranks(), 0, classes.shapes_size()));
    RETURN_IF_ERROR(CheckEach("element_bits", classes.element_bits(), 1, 129));
    RETURN_IF_ERROR(CheckEach("atoms", classes.atoms(), 1, INT32_MAX));
    RETURN_IF_ERROR(CheckSize("atom_extents", classes.atom_extents(), classes.atom_begins_size()));
    program_.geometry.classes.reserve(static_cast<size_t>(classes.arrays_size()));
    for (int c = 0; c < classes.arrays_size(); ++c) RETURN_IF_ERROR(ReadClass(classes, c));
    return CheckSize("atom_begins", classes.atom_begins(), next_dim_);
  }

  absl::Status ReadClass(const v1::ProgramClasses& classes, int c) {
    planner::ArrayClass one{.arrays = {},
                            .element_bits = classes.element_bits(c),
                            .first_atom = atom_count_,
                            .atom_count = classes.atoms(c),
                            .cuts = {},
                            .boxes = {}};
    planner::Shape shape;
    for (int d = 0; d < classes.ranks(c); ++d) shape.push_back(classes.shapes(next_extent_++));
    RETURN_IF_ERROR(
        AtField(Numbered("shapes", c), planner::ValidateShape(shape, one.element_bits)));
    for (int a = 0; a < classes.arrays(c); ++a) {
      one.arrays.push_back(next_array_);
      named_.arrays[next_array_].shape = shape;
      named_.arrays[next_array_++].bits_per_element = one.element_bits;
    }
    const int64_t rank = std::ssize(shape);
    if (int64_t{one.atom_count} * std::max<int64_t>(1, rank) >
        (shape.empty() ? 1 : classes.atom_begins_size() - next_dim_)) {
      return InvalidField(Numbered("atoms", c), absl::StrCat(one.atom_count),
                          "must have atom_begins");
    }
    for (int i = 0; i < one.atom_count; ++i) {
      RETURN_IF_ERROR(ReadCell(classes, static_cast<int>(rank), one.boxes.emplace_back()));
    }
    atom_count_ += one.atom_count;
    program_.geometry.classes.push_back(std::move(one));
    return absl::OkStatus();
  }

  absl::Status ReadCell(const v1::ProgramClasses& classes, int rank, planner::Box& box) {
    for (int d = 0; d < rank; ++d, ++next_dim_) {
      const int64_t begin = classes.atom_begins(next_dim_), size = classes.atom_extents(next_dim_);
      int64_t end = 0;
      if (__builtin_add_overflow(begin, size, &end)) {
        return InvalidField(Numbered("atom_extents", next_dim_), absl::StrCat(size),
                            "must end somewhere");
      }
      box.dims.push_back({begin, end});
    }
    return absl::OkStatus();
  }

  absl::Status ReadTapes(const v1::ProgramTapes& tapes) {
    RETURN_IF_ERROR(CheckSize("atoms", tapes.atoms(), tapes.number_steps_size()));
    RETURN_IF_ERROR(CheckCounts("atoms", tapes.atoms(), 1, tapes.atom_steps_size()));
    ASSIGN_OR_RETURN(program_.tape_numbers, FromSteps("number_steps", tapes.number_steps()));
    ASSIGN_OR_RETURN(program_.atoms, FromSteps("atom_steps", tapes.atom_steps()));
    program_.tape_begin.push_back(0);
    for (const int32_t cells : tapes.atoms()) {
      program_.tape_begin.push_back(program_.tape_begin.back() + cells);
    }
    return absl::OkStatus();
  }

  absl::Status ReadSegments(const v1::ProgramSegments& segments) {
    for (const int size :
         {segments.tape_steps_size(), segments.begins_size(), segments.sizes_size()}) {
      if (size == segments.number_steps_size()) continue;
      return InvalidField("number_steps", absl::StrCat(segments.number_steps_size(), " numbers"),
                          absl::StrCat("must be ", size));
    }
    ASSIGN_OR_RETURN(program_.segment_numbers, FromSteps("number_steps", segments.number_steps()));
    ASSIGN_OR_RETURN(const std::vector<int32_t> tapes,
                     FromSteps("tape_steps", segments.tape_steps()));
    program_.segments.reserve(tapes.size());
    for (int i = 0; i < segments.begins_size(); ++i) {
      planner::Segment segment{.tape = tapes[i], .lo = segments.begins(i)};
      if (__builtin_add_overflow(segment.lo, segments.sizes(i), &segment.hi)) {
        return InvalidField(Numbered("sizes", i), absl::StrCat(segments.sizes(i)),
                            "must end somewhere");
      }
      program_.segments.push_back(segment);
    }
    return absl::OkStatus();
  }

  absl::Status ReadCuts(const v1::ProgramSegments& segments) {
    if (segments.cuts_size() == 0 && segments.cut_positions_size() == 0) return absl::OkStatus();
    RETURN_IF_ERROR(CheckSize("cuts", segments.cuts(), std::ssize(program_.segments)));
    RETURN_IF_ERROR(CheckCounts("cuts", segments.cuts(), 0, segments.cut_positions_size()));
    if (segments.cut_positions_size() == 0) return absl::OkStatus();  // no segment has cuts
    program_.cuts.assign(segments.cut_positions().begin(), segments.cut_positions().end());
    program_.cut_begin.push_back(0);
    for (const int32_t cuts : segments.cuts()) {
      program_.cut_begin.push_back(program_.cut_begin.back() + cuts);
    }
    return absl::OkStatus();
  }

  absl::Status ReadMoves(const v1::ProgramMoves& moves) {
    const int64_t count = moves.hops_size();
    RETURN_IF_ERROR(CheckSize("from_devices", moves.from_devices(), count));
    RETURN_IF_ERROR(CheckSize("to_devices", moves.to_devices(), count));
    RETURN_IF_ERROR(CheckSize("from_spaces", moves.from_spaces(), count));
    RETURN_IF_ERROR(CheckSize("to_spaces", moves.to_spaces(), count));
    RETURN_IF_ERROR(
        CheckEach("from_spaces", moves.from_spaces(), v1::SPACE_SOURCE, v1::SPACE_STAGING + 1));
    RETURN_IF_ERROR(
        CheckEach("to_spaces", moves.to_spaces(), v1::SPACE_SOURCE, v1::SPACE_STAGING + 1));
    ASSIGN_OR_RETURN(const std::vector<int32_t> rounds,
                     FromSteps("round_steps", moves.round_steps()));
    ASSIGN_OR_RETURN(const std::vector<int32_t> segments,
                     FromSteps("segment_steps", moves.segment_steps()));
    RETURN_IF_ERROR(CheckSize("round_steps", rounds, count));
    RETURN_IF_ERROR(CheckSize("segment_steps", segments, count));
    program_.moves.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const bool known = segments[i] < std::ssize(program_.segments);
      program_.moves.push_back(
          {.segment = segments[i],
           .from_device = moves.from_devices(i),
           .to_device = moves.to_devices(i),
           .from_space = static_cast<planner::Space>(moves.from_spaces(i) - v1::SPACE_SOURCE),
           .to_space = static_cast<planner::Space>(moves.to_spaces(i) - v1::SPACE_SOURCE),
           .hop = moves.hops(i),
           .round = rounds[i],
           .lo = 0,
           .hi = known ? program_.segments[segments[i]].size() : 0});
    }
    return absl::OkStatus();
  }

  absl::Status ReadParts(const v1::ProgramMoves& moves) {
    RETURN_IF_ERROR(CheckSize("stripe_begins", moves.stripe_begins(), moves.stripe_steps_size()));
    RETURN_IF_ERROR(CheckSize("stripe_sizes", moves.stripe_sizes(), moves.stripe_steps_size()));
    ASSIGN_OR_RETURN(const std::vector<int32_t> parts,
                     FromSteps("stripe_steps", moves.stripe_steps()));
    for (int i = 0; i < moves.stripe_steps_size(); ++i) {
      if (parts[i] >= std::ssize(program_.moves) || (i > 0 && parts[i] <= parts[i - 1])) {
        return InvalidField(Numbered("stripe_steps", i), absl::StrCat(moves.stripe_steps(i)),
                            "must lead from move to move");
      }
      planner::Move& move = program_.moves[parts[i]];
      move.lo = moves.stripe_begins(i);
      if (__builtin_add_overflow(move.lo, moves.stripe_sizes(i), &move.hi)) {
        return InvalidField(Numbered("stripe_sizes", i), absl::StrCat(moves.stripe_sizes(i)),
                            "must end somewhere");
      }
    }
    return absl::OkStatus();
  }

  const v1::HostProgram& message_;
  NamedProgram named_;
  planner::HostProgram& program_ = named_.program;
  int32_t atom_count_ = 0;
  int32_t next_array_ = 0;
  int next_extent_ = 0;
  int next_dim_ = 0;
};

}  // namespace

absl::StatusOr<NamedProgram> ReadProgram(const v1::HostProgram& message) {
  return Reader(message).Read();
}

}  // namespace remesh::proto
