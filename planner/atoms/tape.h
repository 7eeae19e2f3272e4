// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "planner/values/box.h"

namespace remesh::planner {

// Arrays that are equal in everything that planning reads: shape, element width and both
// placements. Its atoms are boxes within which every element has the same holders and the same
// needers; they are numbered from first_atom on.
struct ArrayClass {
  std::vector<int32_t> arrays;  // canonical indices, rising
  int32_t element_bits = 8;
  int32_t first_atom = 0;
  int32_t atom_count = 0;
  // Either the product of the intervals between cuts (each dimension's from 0 to its extent),
  // numbered in mixed radix, last dimension fastest; or, when `boxes` is not empty, a list of
  // boxes.
  std::vector<std::vector<int64_t>> cuts;
  std::vector<Box> boxes;

  Box AtomBox(int32_t atom) const;
  friend bool operator==(const ArrayClass&, const ArrayClass&) = default;
};

// One array class's share of a tape: the bits of its atoms, for each array of the class in turn.
struct TapeRun {
  int32_t array_class = 0;
  int32_t first_atom = 0;  // into TapeRuns::atoms
  int32_t atom_count = 0;
  int64_t begin = 0;           // position on the tape
  int64_t bits_per_array = 0;  // of all these atoms of one array
};

// The elements of some atoms laid out as a line of bits, in array order. Cuts, stripes and parts
// are positions and ranges on it.
struct TapeRuns {
  absl::Span<const int32_t> atoms;  // rising numbers; outlives the tape
  std::vector<TapeRun> runs;
  int64_t bits = 0;
  int32_t unit_bits =
      1;  // width of the widest elements: cuts at multiples of it hardly need rounding
};

// The boxes of all atoms, and how ranges of a tape map to boxes. All code that uses a position on a
// tape rounds it here, to elements, so that adjoining ranges stay adjoining. Where it moves a
// position by no more than `slack_bits` (one number for a whole plan), rounding goes on to whole
// rows, planes ... of the box that the position falls into, so that a range is one box rather than
// several.
struct AtomGeometry {
  std::vector<ArrayClass> classes;  // by first_atom

  TapeRuns RunsOf(absl::Span<const int32_t> atoms) const;

  // Calls visit(array, box) for boxes that together hold the elements of [begin, end) of `tape`.
  void ForEachBox(const TapeRuns& tape, int64_t begin, int64_t end, int64_t slack_bits,
                  absl::FunctionRef<void(int32_t array, const Box& box)> visit) const;

  // The range on the tape that those elements take.
  Interval Rounded(const TapeRuns& tape, Interval range, int64_t slack_bits) const {
    return {Rounded(tape, range.lo, slack_bits), Rounded(tape, range.hi, slack_bits)};
  }

  // The number of bits of those elements.
  int64_t BitsOfRange(const TapeRuns& tape, int64_t begin, int64_t end, int64_t slack_bits) const {
    return Rounded(tape, {begin, end}, slack_bits).size();
  }

  friend bool operator==(const AtomGeometry&, const AtomGeometry&) = default;

 private:
  int64_t Rounded(const TapeRuns& tape, int64_t position, int64_t slack_bits) const;
};

// Calls visit for boxes that together hold the elements [begin, end) of `box` in row-major order.
// There are at most 2 * rank - 1.
void ForEachBoxOfRange(const Box& box, int64_t begin, int64_t end,
                       absl::FunctionRef<void(const Box& box)> visit);

}  // namespace remesh::planner
