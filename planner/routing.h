// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/demand_classes.h"
#include "planner/network.h"

namespace remesh {

struct RouteEdge {
  int32_t from_host = 0;
  int32_t to_host = 0;
};

// The bits [begin, end) of each class's 0..b take these edges: every needer is entered exactly
// once, by a host that holds the class or stands earlier in the list.
struct RouteSegment {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<RouteEdge> edges;
};

struct Route {
  std::vector<RouteSegment> segments;  // adjoining, from 0 to b
};

// One route for each class.
std::vector<Route> RouteClasses(const DemandClasses& demand, const Network& network);

}  // namespace remesh
