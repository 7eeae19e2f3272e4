// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/network/units.h"

namespace remesh::planner {

// What a class must send between the children of one domain (or of the root), when every domain
// that needs it and does not hold it is entered once and no other one ever. Each child in need is
// then entered once: from a sibling, or, where nobody in the domain holds the class, one of them
// (the *gate*) from above. So `copies` copies of the class pass between the children, and since all
// of this is a constant, so is what is sent inside any domain.
struct Crossing {
  struct Child {
    int32_t begin = 0;  // its hosts are hosts[begin, end)
    int32_t end = 0;
    int32_t crossing = -1;  // between its own children, -1: none
  };
  int32_t domain = -1;  // -1: the root
  Group hosts;          // that hold or need the class, child by child
  std::vector<Child> children;
  int32_t holding = 0;  // the first so many children hold it
  int64_t copies = 0;   // > 0

  // hosts[0, holding_hosts()) lie in children that hold the class: they send the first copy.
  int32_t holding_hosts() const { return holding == 0 ? 0 : children[holding - 1].end; }
};

// The crossings of a class, those of a domain before those of the domains inside it. O(hosts of the
// class * levels), but for sorting.
std::vector<Crossing> CrossingsOf(const DemandClass& demand, const Units& units);

}  // namespace remesh::planner
