// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "planner/values/box.h"

namespace remesh::planner {

// Arrays that are alike in all that planning looks at: shape, element width and both placements.
// Its atoms are boxes within which the holders and the needers of every element are the same; they
// are numbered from first_atom on.
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

// The elements of some atoms laid on a line of bits, in array order: what cuts, stripes and parts
// speak of.
struct TapeRuns {
  absl::Span<const int32_t> atoms;  // rising numbers; outlives the tape
  std::vector<TapeRun> runs;
  int64_t bits = 0;
  int32_t unit_bits =
      1;  // width of the widest elements: cuts at multiples of it hardly need rounding
};

// Positions on a tape are rounded to elements, by every user alike, so that adjoining ranges stay
// adjoining; and, where that moves them by no more than `slack_bits`, which is one number for a
// whole plan, to whole rows, planes ... of the box they fall into, so that ranges are boxes rather
// than ragged.
struct AtomGeometry {
  std::vector<ArrayClass> classes;  // by first_atom

  TapeRuns RunsOf(absl::Span<const int32_t> atoms) const;

  // Calls visit(array, box) for boxes that together hold the elements of [begin, end) of `tape`.
  void ForEachBox(const TapeRuns& tape, int64_t begin, int64_t end, int64_t slack_bits,
                  absl::FunctionRef<void(int32_t array, const Box& box)> visit) const;

  // The range that those elements are.
  Interval Rounded(const TapeRuns& tape, Interval range, int64_t slack_bits) const {
    return {Rounded(tape, range.lo, slack_bits), Rounded(tape, range.hi, slack_bits)};
  }

  // Its bits.
  int64_t BitsOfRange(const TapeRuns& tape, int64_t begin, int64_t end, int64_t slack_bits) const {
    return Rounded(tape, {begin, end}, slack_bits).size();
  }

  friend bool operator==(const AtomGeometry&, const AtomGeometry&) = default;

 private:
  int64_t Rounded(const TapeRuns& tape, int64_t position, int64_t slack_bits) const;
};

// Calls visit for boxes that together hold the elements [begin, end) of `box` in row-major order:
// at most 2 * rank - 1.
void ForEachBoxOfRange(const Box& box, int64_t begin, int64_t end,
                       absl::FunctionRef<void(const Box& box)> visit);

}  // namespace remesh::planner
