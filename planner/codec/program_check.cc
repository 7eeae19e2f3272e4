// SPDX-License-Identifier: Apache-2.0
#include "planner/codec/program_check.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::planner {
namespace {

constexpr int64_t kBitsMax = int64_t{1} << 62;

// The same for one of many numbers. Builds the number's name only for an error.
absl::Status CheckEntry(const char* field, int64_t index, int64_t value, int64_t least,
                        int64_t end) {
  if (value >= least && value < end) return absl::OkStatus();
  return CheckIn(Numbered(field, index), value, least, end);
}

// OK when numbers rise strictly and are >= 0.
absl::Status CheckRise(const char* field, const std::vector<int32_t>& numbers) {
  int64_t least = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    RETURN_IF_ERROR(CheckEntry(field, static_cast<int64_t>(i), numbers[i], least, INT32_MAX));
    least = int64_t{numbers[i]} + 1;
  }
  return absl::OkStatus();
}

}  // namespace

std::string Numbered(const char* field, int64_t index) {
  return absl::StrCat(field, "[", index, "]");
}

absl::Status CheckIn(std::string_view field, int64_t value, int64_t least, int64_t end) {
  if (value >= least && value < end) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(value),
                      absl::StrCat("must be in [", least, ", ", end, ")"));
}

absl::Status ProgramCheck::CheckSchedule(const Schedule& schedule, int64_t windows,
                                         bool has_moves) {
  RETURN_IF_ERROR(CheckIn(fields_.parts, schedule.parts, 1, kWindowsMax + 1));
  RETURN_IF_ERROR(CheckIn(fields_.rounds, schedule.rounds, 1, kWindowsMax + 1));
  RETURN_IF_ERROR(CheckIn(fields_.hops, schedule.hops, 1, kWindowsMax + 1));
  RETURN_IF_ERROR(CheckIn(fields_.min_part_bits, schedule.min_part_bits, 1, kBitsMax));
  RETURN_IF_ERROR(CheckIn(fields_.slack_bits, schedule.slack_bits, 0, kBitsMax / 4));
  schedule_ = schedule;
  const int64_t all = (int64_t{schedule.parts} + schedule.hops - 1) * schedule.rounds;
  if (all <= kWindowsMax && windows == all) return absl::OkStatus();
  if (windows == 0 && !has_moves) return absl::OkStatus();
  return InvalidField(fields_.windows, absl::StrCat(windows),
                      absl::StrCat("must be ", all, ", and at most ", kWindowsMax));
}

absl::Status ProgramCheck::CheckClasses(const AtomGeometry& geometry) {
  geometry_ = &geometry;
  for (size_t c = 0; c < geometry.classes.size(); ++c) {
    RETURN_IF_ERROR(CheckClass(static_cast<int64_t>(c), geometry.classes[c]));
  }
  return absl::OkStatus();
}

absl::Status ProgramCheck::CheckClass(int64_t index, const ArrayClass& one) {
  const std::string name = Numbered(fields_.classes, index);
  if (one.first_atom != atom_count_ || one.atom_count < 0) {
    return InvalidField(name, absl::StrCat(one.atom_count, " atoms from ", one.first_atom),
                        absl::StrCat("must be of atoms from ", atom_count_));
  }
  atom_count_ += one.atom_count;
  if (atom_count_ > INT32_MAX) return InvalidField(name, absl::StrCat(atom_count_), "is too many");
  if (one.arrays.empty()) return InvalidField(name, "no array", "must be of arrays");
  for (const int32_t array : one.arrays) {
    RETURN_IF_ERROR(CheckIn(name, array, 0, static_cast<int64_t>(arrays_.size())));
    if (*arrays_[array].shape != *arrays_[one.arrays.front()].shape ||
        arrays_[array].element_bits != one.element_bits) {
      return InvalidField(name, absl::StrCat("array ", array), "must be like those of its class");
    }
  }
  const Shape& shape = *arrays_[one.arrays.front()].shape;
  if (one.atom_count == 0) {  // arrays without elements
    return one.boxes.empty() ? absl::OkStatus() : InvalidField(name, "0", "must have no boxes");
  }
  RETURN_IF_ERROR(one.boxes.empty() ? CheckCuts(index, one, shape) : CheckBoxes(index, one, shape));
  __int128 elements = one.boxes.empty() ? ElementCount(shape) : 0;
  for (const Box& box : one.boxes) elements += box.element_count();
  bits_ += elements * one.element_bits * one.arrays.size();
  return bits_ < kBitsMax ? absl::OkStatus()
                          : InvalidField(name, "more", "must hold below 2^62 bits");
}

absl::Status ProgramCheck::CheckBoxes(int64_t index, const ArrayClass& one, const Shape& shape) {
  if (static_cast<int64_t>(one.boxes.size()) != one.atom_count) {
    return InvalidField(Numbered(fields_.classes, index), absl::StrCat(one.boxes.size(), " boxes"),
                        absl::StrCat("must be ", one.atom_count));
  }
  for (const Box& box : one.boxes) {
    if (box.dims.size() != shape.size()) {
      return InvalidField(Numbered(fields_.classes, index), box.DebugString(),
                          "must have its rank");
    }
    for (size_t d = 0; d < shape.size(); ++d, ++next_dim_) {
      const Interval& dim = box.dims[d];
      RETURN_IF_ERROR(CheckEntry(fields_.atom_begins, next_dim_, dim.lo, 0, shape[d]));
      if (dim.hi > dim.lo && dim.hi <= shape[d]) continue;
      return InvalidField(Numbered(fields_.atom_extents, next_dim_),
                          absl::StrCat(dim.hi, " - ", dim.lo),
                          absl::StrCat("must be in [1, ", shape[d] - dim.lo + 1, ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramCheck::CheckCuts(int64_t index, const ArrayClass& one,
                                     const Shape& shape) const {
  int64_t atoms = one.cuts.size() == shape.size() ? 1 : -1;
  for (size_t d = 0; atoms > 0 && d < shape.size(); ++d) {
    const std::vector<int64_t>& cuts = one.cuts[d];
    const bool rise =
        cuts.size() >= 2 && cuts.front() == 0 && cuts.back() == shape[d] &&
        std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) == cuts.end();
    if (!rise || __builtin_mul_overflow(atoms, static_cast<int64_t>(cuts.size()) - 1, &atoms)) {
      atoms = -1;
    }
  }
  if (atoms == one.atom_count) return absl::OkStatus();
  return InvalidField(Numbered(fields_.classes, index), absl::StrCat(one.atom_count, " atoms"),
                      "must be what its cuts make of the shape");
}

absl::Status ProgramCheck::CheckTapes(absl::Span<const int32_t> atoms,
                                      absl::Span<const int32_t> tape_begin) {
  if (tape_begin.empty() || tape_begin.front() != 0 ||
      tape_begin.back() != static_cast<int64_t>(atoms.size()) ||
      !std::is_sorted(tape_begin.begin(), tape_begin.end())) {
    return InvalidField(fields_.tapes, absl::StrCat(tape_begin.size(), " begins"),
                        absl::StrCat("must rise from 0 to ", atoms.size()));
  }
  tape_bits_.reserve(tape_begin.size() - 1);
  for (size_t t = 0; t + 1 < tape_begin.size(); ++t) {
    int64_t least = 0;
    for (int32_t i = tape_begin[t]; i < tape_begin[t + 1]; ++i) {
      RETURN_IF_ERROR(CheckEntry(fields_.atoms, i, atoms[i], least, atom_count_));
      least = int64_t{atoms[i]} + 1;
    }
    const size_t size = static_cast<size_t>(tape_begin[t + 1] - tape_begin[t]);
    tape_bits_.push_back(geometry_->RunsOf(atoms.subspan(tape_begin[t], size)).bits);
  }
  return absl::OkStatus();
}

absl::Status ProgramCheck::CheckSegments(absl::Span<const Segment> segments) {
  segments_ = segments;
  int32_t tape = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const int64_t index = static_cast<int64_t>(i);
    RETURN_IF_ERROR(CheckEntry(fields_.segment_tapes, index, segment.tape, tape,
                               static_cast<int64_t>(tape_bits_.size())));
    tape = segment.tape;
    const int64_t bits = tape_bits_[tape];
    RETURN_IF_ERROR(CheckEntry(fields_.segment_begins, index, segment.lo, 0, bits));
    if (segment.hi > segment.lo && segment.hi <= bits) continue;
    return InvalidField(Numbered(fields_.segment_sizes, index),
                        absl::StrCat(segment.hi, " - ", segment.lo),
                        absl::StrCat("must be in [1, ", bits - segment.lo + 1, ")"));
  }
  return absl::OkStatus();
}

absl::Status ProgramCheck::CheckCutsInside(const HostProgram& program) const {
  if (program.cuts.empty()) return absl::OkStatus();
  int64_t index = 0;
  for (size_t s = 0; s < program.segments.size(); ++s) {
    int64_t least = 1;
    for (const int64_t cut : program.CutsOf(static_cast<int32_t>(s))) {
      RETURN_IF_ERROR(
          CheckEntry(fields_.cut_positions, index++, cut, least, program.segments[s].size()));
      least = cut + 1;
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramCheck::CheckMove(int64_t index, const Move& move) {
  const auto in = [&](const char* field, int64_t value, int64_t least, int64_t end) {
    return CheckEntry(field, index, value, least, end);
  };
  RETURN_IF_ERROR(in(fields_.move_rounds, move.round, last_round_, schedule_.rounds));
  last_round_ = move.round;
  RETURN_IF_ERROR(in(fields_.move_hops, move.hop, 0, schedule_.hops));
  RETURN_IF_ERROR(in(fields_.move_from_devices, move.from_device, 0, device_count_));
  RETURN_IF_ERROR(in(fields_.move_to_devices, move.to_device, 0, device_count_));
  constexpr int64_t kSpaces = static_cast<int64_t>(Space::kStaging) + 1;
  RETURN_IF_ERROR(in(fields_.move_from_spaces, static_cast<int64_t>(move.from_space), 0, kSpaces));
  // The source is never written.
  RETURN_IF_ERROR(in(fields_.move_to_spaces, static_cast<int64_t>(move.to_space),
                     static_cast<int64_t>(Space::kTarget), kSpaces));
  RETURN_IF_ERROR(
      in(fields_.move_segments, move.segment, 0, static_cast<int64_t>(segments_.size())));
  const int64_t size = segments_[move.segment].size();
  RETURN_IF_ERROR(in(fields_.move_begins, move.lo, 0, size + 1));
  if (move.hi >= move.lo && move.hi <= size) return absl::OkStatus();
  return InvalidField(Numbered(fields_.move_sizes, index), absl::StrCat(move.hi, " - ", move.lo),
                      absl::StrCat("must be in [0, ", size - move.lo + 1, ")"));
}

namespace {

int64_t CutsInside(const HostProgram& program, const Move& move) {
  const absl::Span<const int64_t> cuts = program.CutsOf(move.segment);
  return std::lower_bound(cuts.begin(), cuts.end(), move.hi) -
         std::upper_bound(cuts.begin(), cuts.end(), move.lo);
}

// Checks that expansion takes no more steps than the limits allow.
absl::Status CheckWork(const HostProgram& program, const ProgramFields& fields) {
  int64_t boxes = 0;
  for (size_t t = 0; t < program.tape_numbers.size(); ++t) {
    for (const TapeRun& run : program.RunsOfTape(static_cast<int32_t>(t)).runs) {
      boxes += run.atom_count * std::ssize(program.geometry.classes[run.array_class].arrays);
    }
    RETURN_IF_ERROR(
        CheckEntry(fields.tapes, static_cast<int64_t>(t), boxes, 0, kProgramTapeBoxesMax + 1));
  }
  const int64_t cycles = int64_t{program.schedule.parts} + program.schedule.hops - 1;
  int64_t count = 0;  // stretches per cycle
  for (const Move& move : program.moves) count += 1 + CutsInside(program, move);
  if (count > kProgramPartsMax / cycles) {
    return InvalidField(fields.move_hops, absl::StrCat(count, " stretches of ", cycles, " cycles"),
                        absl::StrCat("must be at most ", kProgramPartsMax, " parts"));
  }
  __int128 passed = 0;
  for (int64_t i = 0; i < std::ssize(program.moves); ++i) {
    const Segment& segment = program.segments[program.moves[i].segment];
    const int64_t atoms = program.tape_begin[segment.tape + 1] - program.tape_begin[segment.tape];
    passed += __int128{atoms} * program.schedule.PartsOf(segment.size()) *
              (1 + CutsInside(program, program.moves[i]));
    if (passed <= kProgramAtomsPassedMax) continue;
    return InvalidField(Numbered(fields.move_segments, i),
                        absl::StrCat(static_cast<int64_t>(std::min<__int128>(passed, INT64_MAX)),
                                     " atoms in all parts"),
                        absl::StrCat("must be at most ", kProgramAtomsPassedMax));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckProgram(const HostProgram& program, absl::Span<const ProgramArray> arrays,
                          int64_t device_count, const ProgramFields& fields) {
  ProgramCheck check(fields, arrays, device_count);
  RETURN_IF_ERROR(check.CheckSchedule(program.schedule, program.windows, !program.moves.empty()));
  RETURN_IF_ERROR(check.CheckClasses(program.geometry));
  if (program.tape_begin.size() != program.tape_numbers.size() + 1) {
    return InvalidField(fields.tape_numbers, absl::StrCat(program.tape_numbers.size(), " numbers"),
                        "must be one for each tape");
  }
  RETURN_IF_ERROR(CheckRise(fields.tape_numbers, program.tape_numbers));
  RETURN_IF_ERROR(check.CheckTapes(program.atoms, program.tape_begin));
  if (program.segments.size() != program.segment_numbers.size()) {
    return InvalidField(fields.segment_numbers,
                        absl::StrCat(program.segment_numbers.size(), " numbers"),
                        "must be one for each segment");
  }
  RETURN_IF_ERROR(CheckRise(fields.segment_numbers, program.segment_numbers));
  RETURN_IF_ERROR(check.CheckSegments(program.segments));
  RETURN_IF_ERROR(check.CheckCutsInside(program));
  for (size_t i = 0; i < program.moves.size(); ++i) {
    RETURN_IF_ERROR(check.CheckMove(static_cast<int64_t>(i), program.moves[i]));
  }
  return CheckWork(program, fields);
}

}  // namespace remesh::planner
