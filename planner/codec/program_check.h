// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "planner/plan/host_program.h"
#include "planner/schedule/timeline.h"
#include "planner/values/layout.h"

namespace remesh::planner {

// The names of a program's columns in its source, for errors. The check below is the only one of
// programs from outside: a program that passes it can be expanded without reading out of bounds,
// and its expansion ends. A failed check is INVALID_ARGUMENT (see InvalidField()) with the name
// from this table.
struct ProgramFields {
  const char* parts;
  const char* rounds;
  const char* hops;
  const char* min_part_bits;
  const char* slack_bits;
  const char* windows;
  const char* classes;       // atoms of each class
  const char* atom_begins;   // of each dimension of each box, one class after another
  const char* atom_extents;  // likewise
  const char* tapes;         // atoms of each tape
  const char* tape_numbers;
  const char* atoms;  // tape after tape
  const char* segment_tapes;
  const char* segment_begins;
  const char* segment_sizes;
  const char* segment_numbers;
  const char* cut_positions;  // of cuts, segment after segment
  const char* move_hops;
  const char* move_rounds;
  const char* move_segments;
  const char* move_from_devices;
  const char* move_to_devices;
  const char* move_from_spaces;
  const char* move_to_spaces;
  const char* move_begins;
  const char* move_sizes;
};

// The name of one of a column's numbers.
std::string Numbered(const char* field, int64_t index);
// OK when `value` is in [least, end), else INVALID_ARGUMENT.
absl::Status CheckIn(std::string_view field, int64_t value, int64_t least, int64_t end);

// An array that classes may refer to.
struct ProgramArray {
  const Shape* shape = nullptr;  // valid, with elements of so many bits
  int element_bits = 8;
};

// Checks the parts of a program, or of a whole plan. Call in the order of declaration: each check
// relies on what the ones before have passed. All arguments must outlive the object.
class ProgramCheck {
 public:
  ProgramCheck(const ProgramFields& fields, absl::Span<const ProgramArray> arrays,
               int64_t device_count)
      : fields_(fields), arrays_(arrays), device_count_(device_count) {}

  absl::Status CheckSchedule(const Schedule& schedule, int64_t windows, bool has_moves);
  absl::Status CheckClasses(const AtomGeometry& geometry);
  // Atoms of tape t: [tape_begin[t], tape_begin[t + 1]).
  absl::Status CheckTapes(absl::Span<const int32_t> atoms, absl::Span<const int32_t> tape_begin);
  absl::Status CheckSegments(absl::Span<const Segment> segments);
  // REQUIRES: program.cut_begin has one entry more than there are segments, or there are no cuts.
  absl::Status CheckCutsInside(const HostProgram& program) const;
  // Checks one move. Call for one after another; `index` counts them.
  absl::Status CheckMove(int64_t index, const Move& move);

 private:
  absl::Status CheckClass(int64_t index, const ArrayClass& one);
  absl::Status CheckBoxes(int64_t index, const ArrayClass& one, const Shape& shape);
  absl::Status CheckCuts(int64_t index, const ArrayClass& one, const Shape& shape) const;

  const ProgramFields& fields_;
  const absl::Span<const ProgramArray> arrays_;
  const int64_t device_count_;
  Schedule schedule_;
  const AtomGeometry* geometry_ = nullptr;
  int64_t atom_count_ = 0;
  int64_t next_dim_ = 0;
  __int128 bits_ = 0;               // of all atoms
  std::vector<int64_t> tape_bits_;  // by tape
  absl::Span<const Segment> segments_;
  int32_t last_round_ = 0;
};

inline constexpr int64_t kProgramPartsMax = int64_t{1} << 30;  // moves x cycles
// Limit on the sum, over the parts of all moves, of the atoms of the tape. Expansion searches these
// atoms for the ends of each part, and a part that rounds to nothing yields no box at which a
// caller could stop. At the limit it takes less than a minute; this is 2000 times what any program
// of the planner's benchmark needs.
inline constexpr int64_t kProgramAtomsPassedMax = int64_t{1} << 32;
inline constexpr int64_t kProgramTapeBoxesMax = int64_t{1}
                                                << 24;  // atoms x arrays, summed over tapes

// Checks a whole program, and that its expansion stays within the limits above.
absl::Status CheckProgram(const HostProgram& program, absl::Span<const ProgramArray> arrays,
                          int64_t device_count, const ProgramFields& fields);

}  // namespace remesh::planner
