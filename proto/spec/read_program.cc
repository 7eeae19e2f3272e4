// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/schedule/windows.h"
#include "proto/convert/program_proto.h"

namespace remesh {
namespace {

using google::protobuf::RepeatedField;

constexpr int64_t kBitsMax = int64_t{1} << 62;

std::string At(const char* field, int64_t index) { return absl::StrCat(field, "[", index, "]"); }

// OK when `value` is in [least, end).
absl::Status CheckIn(std::string_view field, int64_t value, int64_t least, int64_t end) {
  if (value >= least && value < end) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(value),
                      absl::StrCat("must be in [", least, ", ", end, ")"));
}

absl::Status CheckEach(const char* field, const RepeatedField<int32_t>& column, int64_t least,
                       int64_t end) {
  for (int i = 0; i < column.size(); ++i) {
    if (column[i] < least || column[i] >= end) return CheckIn(At(field, i), column[i], least, end);
  }
  return absl::OkStatus();
}

template <typename Column>
absl::Status CheckSize(const char* field, const Column& column, int64_t size) {
  if (static_cast<int64_t>(column.size()) == size) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(column.size(), " numbers"),
                      absl::StrCat("must be ", size));
}

// Sum of counts that are at least `least` each, which must be `size`.
absl::Status CheckCounts(const char* field, const RepeatedField<int32_t>& counts, int64_t least,
                         int64_t size) {
  RETURN_IF_ERROR(CheckEach(field, counts, least, size + 1));
  int64_t sum = 0;
  for (const int32_t count : counts) sum += count;
  if (sum == size) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(sum, " in all"), absl::StrCat("must be ", size));
}

// The numbers of [0, end) that `steps` lead to; every step but the first at least `least`.
absl::StatusOr<std::vector<int32_t>> FromSteps(const char* field,
                                               const RepeatedField<int32_t>& steps, int64_t least,
                                               int64_t end) {
  std::vector<int32_t> numbers;
  numbers.reserve(static_cast<size_t>(steps.size()));
  int64_t last = 0;
  for (int i = 0; i < steps.size(); ++i) {
    last += steps[i];
    if (i > 0 && steps[i] < least)
      return InvalidField(At(field, i), absl::StrCat(steps[i]), absl::StrCat("must be >= ", least));
    if (last < 0 || last >= end) return CheckIn(At(field, i), last, 0, end);
    numbers.push_back(static_cast<int32_t>(last));
  }
  return numbers;
}

bool BeginsCharacter(std::string_view text, size_t at) {
  return at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
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
    RETURN_IF_ERROR(CheckIn(At("prefix_bytes", i), prefix, 0, size + 1));
    RETURN_IF_ERROR(CheckIn(At("suffix_bytes", i), suffix, 0, size - prefix + 1));
    if (!BeginsCharacter(before, prefix) || !BeginsCharacter(before, size - suffix))
      return InvalidField(At("prefix_bytes", i), absl::StrCat(prefix, ", ", suffix),
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

// Reads a program column by column; each step finds what those before have checked.
class Reader {
 public:
  explicit Reader(const v1::HostProgram& message) : message_(message) {}

  absl::StatusOr<NamedProgram> Read() && {
    named_.fingerprint = message_.fingerprint();
    named_.devices.assign(message_.devices().begin(), message_.devices().end());
    RETURN_IF_ERROR(AtField("schedule", ReadSchedule(message_.schedule())));
    auto arrays = ReadNames(message_.names());
    if (!arrays.ok()) return AtField("names", arrays.status());
    named_.arrays = *std::move(arrays);
    RETURN_IF_ERROR(AtField("classes", ReadClasses(message_.classes())));
    RETURN_IF_ERROR(AtField("tapes", ReadTapes(message_.tapes())));
    RETURN_IF_ERROR(AtField("segments", ReadSegments(message_.segments())));
    RETURN_IF_ERROR(AtField("moves", ReadMoves(message_.moves())));
    RETURN_IF_ERROR(AtField("moves", ReadParts(message_.moves())));
    return std::move(named_);
  }

 private:
  absl::Status ReadSchedule(const v1::ProgramSchedule& schedule) {
    RETURN_IF_ERROR(CheckIn("parts", schedule.parts(), 1, kWindowsMax + 1));
    RETURN_IF_ERROR(CheckIn("rounds", schedule.rounds(), 1, kWindowsMax + 1));
    RETURN_IF_ERROR(CheckIn("hops", schedule.hops(), 1, kWindowsMax + 1));
    RETURN_IF_ERROR(CheckIn("min_part_bits", schedule.min_part_bits(), 1, kBitsMax));
    RETURN_IF_ERROR(CheckIn("slack_bits", schedule.slack_bits(), 0, kBitsMax / 4));
    program_.schedule = {.slices = schedule.parts(),
                         .rounds = schedule.rounds(),
                         .stages = schedule.hops(),
                         .min_part_bits = schedule.min_part_bits()};
    program_.tapes.slack_bits = schedule.slack_bits();
    program_.windows = schedule.windows();
    const int64_t windows =
        (int64_t{schedule.parts()} + schedule.hops() - 1) * schedule.rounds();
    if (windows <= kWindowsMax && schedule.windows() == windows) return absl::OkStatus();
    if (schedule.windows() == 0 && message_.moves().hops().empty()) return absl::OkStatus();
    return InvalidField("windows", absl::StrCat(schedule.windows()),
                        absl::StrCat("must be ", windows, ", and at most ", kWindowsMax));
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
    program_.tapes.classes.reserve(static_cast<size_t>(classes.arrays_size()));
    for (int c = 0; c < classes.arrays_size(); ++c) RETURN_IF_ERROR(ReadClass(classes, c));
    return CheckSize("atom_begins", classes.atom_begins(), next_dim_);
  }

  absl::Status ReadClass(const v1::ProgramClasses& classes, int c) {
    ArrayClass one{.arrays = {},
                   .element_bits = classes.element_bits(c),
                   .first_cell = cell_count_,
                   .cell_count = classes.atoms(c),
                   .cuts = {},
                   .boxes = {}};
    Shape shape;
    for (int d = 0; d < classes.ranks(c); ++d) shape.push_back(classes.shapes(next_extent_++));
    RETURN_IF_ERROR(AtField(At("shapes", c), ValidateShape(shape, one.element_bits)));
    for (int a = 0; a < classes.arrays(c); ++a) {
      one.arrays.push_back(next_array_);
      named_.arrays[next_array_].shape = shape;
      named_.arrays[next_array_++].bits_per_element = one.element_bits;
    }
    if (int64_t{one.cell_count} * std::max<int64_t>(1, std::ssize(shape)) >
        (shape.empty() ? 1 : classes.atom_begins_size() - next_dim_)) {
      return InvalidField(At("atoms", c), absl::StrCat(one.cell_count), "must have atom_begins");
    }
    for (int i = 0; i < one.cell_count; ++i) {
      ASSIGN_OR_RETURN(Box box, ReadCell(classes, shape));
      bits_ += __int128{box.element_count()} * one.element_bits * classes.arrays(c);
      if (bits_ >= kBitsMax)
        return InvalidField(At("atoms", c), "more", "must hold below 2^62 bits");
      one.boxes.push_back(std::move(box));
    }
    cell_count_ += one.cell_count;
    program_.tapes.classes.push_back(std::move(one));
    return absl::OkStatus();
  }

  absl::StatusOr<Box> ReadCell(const v1::ProgramClasses& classes, const Shape& shape) {
    Box box;
    for (const int64_t extent : shape) {
      const int64_t begin = classes.atom_begins(next_dim_), size = classes.atom_extents(next_dim_);
      RETURN_IF_ERROR(CheckIn(At("atom_begins", next_dim_), begin, 0, extent));
      RETURN_IF_ERROR(CheckIn(At("atom_extents", next_dim_), size, 1, extent - begin + 1));
      box.dims.push_back({begin, begin + size});
      ++next_dim_;
    }
    return box;
  }

  absl::Status ReadTapes(const v1::ProgramTapes& tapes) {
    RETURN_IF_ERROR(CheckSize("atoms", tapes.atoms(), tapes.number_steps_size()));
    RETURN_IF_ERROR(CheckCounts("atoms", tapes.atoms(), 1, tapes.atom_steps_size()));
    ASSIGN_OR_RETURN(program_.sub_numbers,
                     FromSteps("number_steps", tapes.number_steps(), 1, INT32_MAX));
    ASSIGN_OR_RETURN(program_.cells,
                     FromSteps("atom_steps", tapes.atom_steps(), INT32_MIN, cell_count_));
    program_.sub_begin.push_back(0);
    for (int s = 0; s < tapes.cells_size(); ++s) {
      const int32_t begin = program_.sub_begin.back(), end = begin + tapes.atoms(s);
      for (int32_t i = begin + 1; i < end; ++i) {
        if (program_.cells[i] > program_.cells[i - 1]) continue;
        return InvalidField(At("atom_steps", i), absl::StrCat(tapes.atom_steps(i)), "must be >= 1");
      }
      program_.sub_begin.push_back(end);
      RETURN_IF_ERROR(CheckBoxes(s));
    }
    return absl::OkStatus();
  }

  // Notes how long the tape is.
  absl::Status CheckBoxes(int s) {
    const Tape tape = program_.TapeOfSub(s);
    int64_t boxes = 0;
    for (const TapeRun& run : tape.runs) {
      boxes += run.cell_count * std::ssize(program_.tapes.classes[run.array_class].arrays);
    }
    tape_bits_.push_back(tape.bits);
    return CheckIn(At("atoms", s), boxes, 0, kProgramTapeBoxesMax + 1);
  }

  absl::Status ReadSegments(const v1::ProgramSegments& segments) {
    for (const int size :
         {segments.tape_steps_size(), segments.begins_size(), segments.sizes_size()}) {
      if (size == segments.number_steps_size()) continue;
      return InvalidField("number_steps", absl::StrCat(segments.number_steps_size(), " numbers"),
                          absl::StrCat("must be ", size));
    }
    ASSIGN_OR_RETURN(program_.segment_numbers,
                     FromSteps("number_steps", segments.number_steps(), 1, INT32_MAX));
    ASSIGN_OR_RETURN(const std::vector<int32_t> tapes,
                     FromSteps("tape_steps", segments.tape_steps(), 0, std::ssize(tape_bits_)));
    program_.segments.reserve(tapes.size());
    for (int i = 0; i < segments.begins_size(); ++i) {
      const int64_t bits = tape_bits_[tapes[i]], begin = segments.begins(i);
      RETURN_IF_ERROR(CheckIn(At("begins", i), begin, 0, bits));
      RETURN_IF_ERROR(CheckIn(At("sizes", i), segments.sizes(i), 1, bits - begin + 1));
      program_.segments.push_back({tapes[i], begin, begin + segments.sizes(i)});
    }
    return absl::OkStatus();
  }

  absl::Status ReadMoves(const v1::ProgramMoves& moves) {
    const int64_t count = moves.stages_size();
    RETURN_IF_ERROR(CheckSize("from_devices", moves.from_devices(), count));
    RETURN_IF_ERROR(CheckSize("to_devices", moves.to_devices(), count));
    RETURN_IF_ERROR(CheckSize("from_spaces", moves.from_spaces(), count));
    RETURN_IF_ERROR(CheckSize("to_spaces", moves.to_spaces(), count));
    RETURN_IF_ERROR(CheckEach("hops", moves.hops(), 0, program_.schedule.stages));
    for (const auto* column : {&moves.from_devices(), &moves.to_devices()})
      RETURN_IF_ERROR(CheckEach(column == &moves.from_devices() ? "from_devices" : "to_devices",
                                *column, 0, std::ssize(named_.devices)));
    RETURN_IF_ERROR(
        CheckEach("from_spaces", moves.from_spaces(), v1::SPACE_SOURCE, v1::SPACE_STAGING + 1));
    // The source is never written.
    RETURN_IF_ERROR(
        CheckEach("to_spaces", moves.to_spaces(), v1::SPACE_TARGET, v1::SPACE_STAGING + 1));
    ASSIGN_OR_RETURN(const std::vector<int32_t> rounds,
                     FromSteps("round_steps", moves.round_steps(), 0, program_.schedule.rounds));
    ASSIGN_OR_RETURN(const std::vector<int32_t> segments,
                     FromSteps("segment_steps", moves.segment_steps(), INT32_MIN,
                               std::ssize(program_.segments)));
    RETURN_IF_ERROR(CheckSize("round_steps", rounds, count));
    RETURN_IF_ERROR(CheckSize("segment_steps", segments, count));
    const int64_t cycles = int64_t{program_.schedule.slices} + program_.schedule.stages - 1;
    if (count > kProgramSlicesMax / cycles)
      return InvalidField("hops", absl::StrCat(count, " moves of ", cycles, " cycles"),
                          absl::StrCat("must be at most ", kProgramSlicesMax, " slices"));
    program_.moves.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      program_.moves.push_back(
          {.segment = segments[i],
           .from_device = moves.from_devices(i),
           .to_device = moves.to_devices(i),
           .from_space = static_cast<Space>(moves.from_spaces(i) - v1::SPACE_SOURCE),
           .to_space = static_cast<Space>(moves.to_spaces(i) - v1::SPACE_SOURCE),
           .stage = moves.hops(i),
           .round = rounds[i],
           .lo = 0,
           .hi = program_.segments[segments[i]].size()});
    }
    return CheckCellsPassed();
  }

  absl::Status CheckCellsPassed() const {
    int64_t passed = 0;
    for (size_t i = 0; i < program_.moves.size(); ++i) {
      const Segment& segment = program_.segments[program_.moves[i].segment];
      const int64_t cells = program_.sub_begin[segment.sub + 1] - program_.sub_begin[segment.sub];
      passed += cells * program_.schedule.PartsOf(segment.size());
      if (passed > kProgramCellsPassedMax)
        return InvalidField(At("segment_steps", static_cast<int64_t>(i)),
                            absl::StrCat(passed, " cells in all parts"),
                            absl::StrCat("must be at most ", kProgramCellsPassedMax));
    }
    return absl::OkStatus();
  }

  absl::Status ReadParts(const v1::ProgramMoves& moves) {
    RETURN_IF_ERROR(CheckSize("stripe_begins", moves.stripe_begins(), moves.stripe_steps_size()));
    RETURN_IF_ERROR(CheckSize("stripe_sizes", moves.stripe_sizes(), moves.stripe_steps_size()));
    ASSIGN_OR_RETURN(const std::vector<int32_t> parts,
                     FromSteps("stripe_steps", moves.stripe_steps(), 1, std::ssize(program_.moves)));
    for (int i = 0; i < moves.stripe_steps_size(); ++i) {
      Move& move = program_.moves[parts[i]];
      const int64_t begin = moves.stripe_begins(i);
      RETURN_IF_ERROR(CheckIn(At("stripe_begins", i), begin, 0, move.hi + 1));
      RETURN_IF_ERROR(CheckIn(At("stripe_sizes", i), moves.stripe_sizes(i), 0, move.hi - begin + 1));
      move.lo = begin;
      move.hi = begin + moves.stripe_sizes(i);
    }
    return absl::OkStatus();
  }

  const v1::HostProgram& message_;
  NamedProgram named_;
  HostProgram& program_ = named_.program;
  __int128 bits_ = 0;  // of all cells
  int32_t cell_count_ = 0;
  int32_t next_array_ = 0;
  int next_extent_ = 0;
  int next_dim_ = 0;
  std::vector<int64_t> tape_bits_;
};

}  // namespace

absl::StatusOr<NamedProgram> ReadProgram(const v1::HostProgram& message) {
  return Reader(message).Read();
}

}  // namespace remesh
