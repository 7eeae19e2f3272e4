// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/atoms.h"
#include "planner/network/network.h"

namespace remesh::planner {

// All tapes with the same holder hosts and the same needer hosts: the unit that routing between
// hosts solves for. A host that holds a tape is never a needer: it copies the tape to its other
// devices inside the host.
struct DemandClass {
  Group holders;                          // hosts, not empty
  Group needers;                          // hosts, disjoint from holders, not empty
  absl::InlinedVector<int32_t, 4> tapes;  // rising
  int64_t bits = 0;                       // b: what each needer must get once
};

struct DemandClasses {
  std::vector<DemandClass> classes;  // in order of first appearance
  std::vector<int32_t> class_of;     // tape -> class, -1 where no host needs the tape
};

// Incomplete once the budget is spent.
DemandClasses MakeDemandClasses(const Atoms& atoms, const Network& network,
                                Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
