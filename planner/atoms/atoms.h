// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "planner/atoms/missing_box.h"
#include "planner/atoms/tape.h"
#include "planner/network/network.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"

namespace remesh::planner {

// A sorted set of devices (or hosts), shared by all tapes that have the same set. There may be
// millions of groups, most of them small; small ones take no heap memory.
using Group = absl::InlinedVector<int32_t, 4>;

// All elements, of all arrays, that the same living devices hold before and the same devices need
// after, laid out as one line of bits: see AtomGeometry.
struct Tape {
  int32_t holders = 0;      // into Atoms::groups, never empty
  int32_t needers = 0;      // into Atoms::groups, never empty
  int64_t bits = 0;         // length of the tape
  int32_t first_atom = 0;   // its atoms begin there in Atoms::numbers
  int16_t unit_bits = 1;    // width of its widest elements: cuts at multiples of it are cheap
  bool same_memory = true;  // whether source and target lie in the same kind of memory: else
                            // nothing is kept in place
};

// All elements that devices need, cut as coarsely as holders and needers allow. The size of an
// Atoms depends on the layouts, not on the number of arrays: arrays with equal shape, width and
// placements share their atoms, and atoms with equal groups share a tape.
struct Atoms {
  std::vector<Group> groups;
  std::vector<Tape> tapes;       // in order of first appearance
  std::vector<int32_t> numbers;  // of atoms, tape after tape, rising within each
  AtomGeometry geometry;
  std::vector<MissingBox> missing;    // needed, but held by lost devices only
  std::vector<int64_t> missing_bits;  // of `missing`, by the group that needs them
};

// Source tile s and target tile t overlap in the product of their intervals: for each dimension one
// walk merges the cuts of source and target, and the product of these walks yields exactly the
// non-empty intersections. Layouts without partitions (explicit boxes) are cut by halving the array
// at box boundaries until no boundary is left inside a part. Subgroups are planned apart: elements
// move between equal subgroups only. RESOURCE_EXHAUSTED above kAtomsMax (TOO_MANY_ATOMS) or
// kOverlapsMax (TOO_MANY_OVERLAPS).
absl::StatusOr<Atoms> MakeAtoms(const ReshardRequest& canonical, const Network& network,
                                Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
