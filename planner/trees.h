// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/demand_classes.h"

namespace remesh {

struct RouteEdge {
  int32_t from_host = 0;
  int32_t to_host = 0;
};

// The bits [begin, end) of a class's 0..b take these edges: every needer is entered exactly once,
// by a host that holds the class or stands earlier in the list.
struct RouteSegment {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<RouteEdge> edges;
};

using Route = std::vector<RouteSegment>;  // adjoining, from 0 to b

// Trees that make host k of (holders, then needers) send sent[k] bits. With b the class's bits,
// host k sends floor(sent[k] / b) whole copies and a fraction; the fractions, holders' first, laid
// end to end on a line of length b * n and wrapped around [0, b) say who serves one copy more
// where. At each point the degrees are whole numbers that sum to the number of needers, with a
// holder's among them, so they are the degrees of a tree; it is built breadth first, needers of
// high degree first, to be shallow. At most as many segments as hosts with a fraction, and one.
// REQUIRES: the sum of sent is b * |needers|, that of the holders is at least b.
Route MakeTrees(const DemandClass& demand, const std::vector<int64_t>& sent);

}  // namespace remesh
