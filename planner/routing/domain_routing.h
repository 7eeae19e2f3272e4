// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/routing/network.h"
#include "planner/routing/trees.h"
#include "planner/schedule/units.h"

namespace remesh {

// Routes that enter each domain of a level once. First the classes are routed between domains (as
// between hosts, with the uplinks' capacities), which says for each stretch of a class from which
// domain every domain in need gets it. Then one transport over hosts settles who in the giving
// domain sends it, and who inside passes it on: what a domain holds, or has got, spreads among its
// own hosts. One route for each class; the busiest uplink of the level is as good as it gets
// without third domains.
//
// Levels are routed each alone, and uplinks before hosts: where NICs and the uplinks of one level,
// or those of several levels, bind at the same time, the plan may be above max(LB, T0). Measured
// over 3,881 random requests with up to three racks, nested or not, of arbitrary capacities: above
// 1.01 of it in 167, above 1.1 in 15, above 1.5 in 4, 3.0 at worst (a rack within a rack). Exact
// would be one maximum flow over hosts and all their domains: with every domain entered once, what
// moves inside a domain is a constant, so that its egress limits what its hosts send in all.
std::vector<Route> RouteThroughDomains(const DemandClasses& demand, const Network& network,
                                       const Units& units, int level);

}  // namespace remesh
