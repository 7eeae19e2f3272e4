// SPDX-License-Identifier: Apache-2.0
#include "planner/routing.h"

namespace remesh {
namespace {

// Each holder serves an equal part to every needer, the parts turned from one needer to the next.
Route RouteFromHolders(const DemandClass& demand) {
  Route route;
  const int64_t holders = static_cast<int64_t>(demand.holders.size());
  for (int64_t part = 0; part < holders; ++part) {
    RouteSegment segment{
        .begin = static_cast<int64_t>(static_cast<__int128>(demand.bits) * part / holders),
        .end = static_cast<int64_t>(static_cast<__int128>(demand.bits) * (part + 1) / holders),
        .edges = {}};
    if (segment.begin == segment.end) continue;
    for (size_t n = 0; n < demand.needers.size(); ++n) {
      segment.edges.push_back({demand.holders[(part + n) % holders], demand.needers[n]});
    }
    route.segments.push_back(std::move(segment));
  }
  return route;
}

}  // namespace

std::vector<Route> RouteClasses(const DemandClasses& demand, const Network& network) {
  std::vector<Route> routes;
  for (const DemandClass& one : demand.classes) routes.push_back(RouteFromHolders(one));
  return routes;
}

}  // namespace remesh
