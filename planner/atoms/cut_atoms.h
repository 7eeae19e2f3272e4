// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "planner/atoms/tape.h"
#include "planner/values/budget.h"
#include "planner/values/layout.h"

namespace remesh::planner {

// An atom with the tiles that hold it before and need it after (indices of Layout::tiles, all of
// one subgroup). The spans are valid during the visit.
struct Atom {
  int32_t id = 0;  // see ArrayClass
  int64_t elements = 0;
  absl::Span<const int32_t> source_tiles;
  absl::Span<const int32_t> target_tiles;
};

inline constexpr int64_t kAtomsMax = int64_t{1} << 22;
absl::Status TooManyAtoms();
// Limit on the tiles of all atoms of a class, and on the devices of all groups of holders and
// needers: nested boxes can cause as many as the square of their number.
inline constexpr int64_t kOverlapsMax = int64_t{1} << 24;
absl::Status TooManyOverlaps();

// Fills in the geometry of the atoms in `array_class`, whose first_atom is set, and calls visit for
// every atom that a tile needs, subgroup by subgroup. Ends with the first error of visit.
// RESOURCE_EXHAUSTED above kAtomsMax (TOO_MANY_ATOMS) or kOverlapsMax (TOO_MANY_OVERLAPS).
using VisitAtom = absl::FunctionRef<absl::Status(const Atom& atom)>;
absl::Status CutIntoAtoms(const Layout& source, const Layout& target, ArrayClass& array_class,
                          const VisitAtom& visit, Budget& budget);

}  // namespace remesh::planner
