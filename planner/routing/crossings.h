// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/network/units.h"

namespace remesh::planner {

// What the hosts of a class must send between the children of one domain (or of the root), if the
// class enters every domain that needs it and does not hold it once, and enters no other domain.
// Each child that needs the class is then entered once: from a sibling, or, where no host in the
// domain holds the class, one of the children (the *gate*) from above. So `copies` copies of the
// class pass between the children. All of this is a constant, and so is the amount sent inside any
// domain.
struct Crossing {
  struct Child {
    int32_t begin = 0;  // its hosts are hosts[begin, end)
    int32_t end = 0;
    int32_t crossing = -1;  // between its own children, -1: none
  };
  int32_t domain = -1;  // -1: the root
  Group hosts;          // that hold or need the class, child by child
  std::vector<Child> children;
  int32_t holding = 0;  // number of children that hold it; they come first
  int64_t copies = 0;   // > 0

  // hosts[0, holding_hosts()) lie in children that hold the class: they send the first copy.
  int32_t holding_hosts() const { return holding == 0 ? 0 : children[holding - 1].end; }
};

// The crossings of a class; those of a domain come before those of the domains inside it. O(hosts
// of the class * levels), plus sorting.
std::vector<Crossing> CrossingsOf(const DemandClass& demand, const Units& units);

}  // namespace remesh::planner
