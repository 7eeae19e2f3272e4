// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/atoms.h"
#include "planner/network/network.h"

namespace remesh::planner {

// All tapes with the same holder hosts and the same hosts in need: what routing between hosts
// solves over. A host that holds is never in need: what it holds goes to its other devices inside.
struct DemandClass {
  Group holders;                          // hosts, not empty
  Group needers;                          // hosts, disjoint from holders, not empty
  absl::InlinedVector<int32_t, 4> tapes;  // rising
  int64_t bits = 0;                       // b: what each needer must get once
};

struct DemandClasses {
  std::vector<DemandClass> classes;  // in order of first appearance
  std::vector<int32_t> class_of;     // tape -> class, -1 where no host is in need
};

// Incomplete once the budget is spent.
DemandClasses MakeDemandClasses(const Atoms& atoms, const Network& network,
                                Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
