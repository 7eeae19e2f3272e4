// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "planner/box.h"

namespace remesh {

// Arrays that are alike in all that planning looks at: shape, element width and both placements.
struct ArrayClass {
  std::vector<int32_t> arrays;  // canonical indices, rising
  int32_t element_bits = 8;
  // Cells: boxes within which the holders and the needers of every element are the same. Either the
  // product of intervals per dimension (cell ids count in mixed radix, last dimension fastest), or,
  // when `boxes` is not empty, a list of boxes.
  std::vector<std::vector<Interval>> intervals;
  std::vector<Box> boxes;

  Box CellBox(int64_t cell) const;
  friend bool operator==(const ArrayClass&, const ArrayClass&) = default;
};

// One array class's share of a tape: the bits of its cells, for each array of the class in turn.
struct TapeRun {
  int32_t array_class = 0;
  int32_t first_cell = 0;  // into Tapes::cells
  int32_t cell_count = 0;
  int64_t begin = 0;           // position on the tape
  int64_t bits_per_array = 0;  // of all these cells of one array

  friend bool operator==(const TapeRun&, const TapeRun&) = default;
};

// The elements of a sub (see atoms.h) laid on a line of bits, in array order: what cuts, stripes
// and slices speak of. Positions are rounded to elements, by every user alike, so that adjoining
// ranges stay adjoining; and, where that moves them by no more than `slack_bits`, to whole rows,
// planes ... of the box they fall into, so that ranges are boxes rather than ragged.
class Tapes {
 public:
  // Calls visit(array, box) for boxes that together hold the elements of [begin, end) of the tape
  // made of `runs`.
  void ForEachBox(absl::Span<const TapeRun> runs, int64_t begin, int64_t end,
                  absl::FunctionRef<void(int32_t array, const Box& box)> visit) const;

  int64_t slack_bits = 0;
  std::vector<ArrayClass> classes;
  std::vector<int32_t> cells;  // cell ids, run after run

  friend bool operator==(const Tapes&, const Tapes&) = default;

  // Bits that ForEachBox() visits of [begin, end), without visiting.
  int64_t RoundedBits(absl::Span<const TapeRun> runs, int64_t begin, int64_t end) const {
    return Rounded(runs, end) - Rounded(runs, begin);
  }

 private:
  int64_t Rounded(absl::Span<const TapeRun> runs, int64_t position) const;
};

// Calls visit for boxes that together hold the elements [begin, end) of `box` in row-major order:
// at most 2 * rank - 1.
void ForEachBoxOfRange(const Box& box, int64_t begin, int64_t end,
                       absl::FunctionRef<void(const Box& box)> visit);

}  // namespace remesh
