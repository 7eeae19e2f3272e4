// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "planner/demand_classes.h"
#include "planner/network.h"
#include "planner/trees.h"
#include "planner/units.h"

namespace remesh {

// Routes that enter each domain of a level once. First the classes are routed between domains (as
// between hosts, with the uplinks' capacities), which says for each stretch of a class from which
// domain every domain in need gets it. Then one transport over hosts settles who in the giving
// domain sends it, and who inside passes it on: what a domain holds, or has got, spreads among its
// own hosts. One route for each class; the busiest uplink of the level is as good as it gets
// without third domains.
std::vector<Route> RouteThroughDomains(const DemandClasses& demand, const Network& network,
                                       const Units& units, int level);

}  // namespace remesh
