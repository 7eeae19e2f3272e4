// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "planner/atoms/tape.h"
#include "planner/values/budget.h"
#include "planner/values/layout.h"

namespace remesh::planner {

// An atom with the tiles that hold it before and need it after (indices of Layout::tiles, all of
// one subgroup). Atoms that no tile needs are left out.
struct Atom {
  int32_t id = 0;  // see ArrayClass
  int64_t elements = 0;
  absl::InlinedVector<int32_t, 2> source_tiles;
  absl::InlinedVector<int32_t, 2> target_tiles;
};

inline constexpr int64_t kAtomsMax = int64_t{1} << 22;
absl::Status TooManyAtoms();
// Limit on the tiles of all atoms of a class, and on the devices of all groups of holders and
// needers: nested boxes can cause as many as the square of their number.
inline constexpr int64_t kOverlapsMax = int64_t{1} << 24;
absl::Status TooManyOverlaps();

// Fills in the geometry of the atoms in `array_class`, whose first_atom is set, and returns the
// atoms, subgroup by subgroup. RESOURCE_EXHAUSTED above kAtomsMax (TOO_MANY_ATOMS) or kOverlapsMax
// (TOO_MANY_OVERLAPS).
absl::StatusOr<std::vector<Atom>> CutIntoAtoms(const Layout& source, const Layout& target,
                                               ArrayClass& array_class, Budget& budget);

}  // namespace remesh::planner
