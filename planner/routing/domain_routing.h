// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/network/units.h"
#include "planner/routing/crossings.h"
#include "planner/routing/lower_bound.h"

namespace remesh::planner {

// Routing through a tree of domains each of which is entered once by what it needs and does not
// hold, and never by what it holds: how much of each class every host sends between the children of
// every domain, so that the busiest of all NICs and uplinks is as little busy as any such plan
// without third hosts lets it be.
//
// What enters a host or a domain is then given, and so is what is sent inside a domain d, M_d (see
// crossings.h). What leaves d is what its hosts send in all less M_d: its uplink bounds the sum of
// its hosts by t * C_out(d) + M_d, all levels at once. So routing is a transportation problem in
// groups: items are the crossings' first copies, from children that hold the class, and their
// further copies, from any host in the domain that holds or gets it; bins are hosts, of capacity
// t * C_h. Any amounts with these sums can be sent along trees whose nodes are the children.
//
// Entering a domain again, or one that holds the class, is better where NICs inside bind and its
// ingress does not: mixed_routes.h mixes such routes in, which helps but is not the optimum. Plans
// measured against max(LB, T0 without uplinks), which holds for those too, eight elements aside,
// over random requests with racks, nested or not, of arbitrary capacities:
//   4,656 with 1 to 3 racks: above 1.01 of it in 4, above 1.1 in 4, above 1.5 in 2, 1.8 at worst;
//   4,799 with 1 to 9 racks, up to 16 hosts: in 13, 9 and 1, 1.8 at worst.
struct DomainRouting {
  Bound bound;                                   // the least t, and what proves it
  std::vector<std::vector<Crossing>> crossings;  // by class
  std::vector<std::vector<Served>> sent;         // by class, crossing and host of it: bits
};

// Domains below the levels that `units` knows count for their ingress only.
DomainRouting RouteThroughDomains(const DemandClasses& demand, const Units& units,
                                  Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
