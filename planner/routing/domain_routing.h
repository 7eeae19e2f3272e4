// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/network/units.h"
#include "planner/routing/crossings.h"
#include "planner/routing/lower_bound.h"

namespace remesh::planner {

// Routing through a tree of domains, where a class enters each domain that needs it and does not
// hold it once, and never enters one that holds it. Gives how much of each class every host sends
// between the children of every domain, so that the busiest NIC or uplink is as little busy as
// possible among such plans without third hosts.
//
// This fixes what enters a host or a domain, and also what is sent inside a domain d, M_d (see
// crossings.h). d's egress is the sum of what its hosts send, less M_d, so its uplink bounds that
// sum by t * C_out(d) + M_d, at all levels at once. Routing is thus a transportation problem in
// groups: items are the crossings' first copies, from children that hold the class, and their
// further copies, from any host in the domain that holds or gets the class; bins are hosts, of
// capacity t * C_h. Any amounts with these sums can be sent along trees whose nodes are the
// children.
//
// It is better to enter a domain again, or to enter one that holds the class, where NICs inside the
// domain bind and its ingress does not. mixed_routes.h mixes in such routes, which helps but does
// not reach the optimum. Plans were measured against max(LB, T0 without uplinks), a bound that
// holds for such routes too, eight elements aside, over random requests with racks, nested or not,
// of arbitrary capacities:
//   4,656 with 1 to 3 racks: above 1.01 of it in 4, above 1.1 in 4, above 1.5 in 2, 1.8 at worst;
//   4,799 with 1 to 9 racks, up to 16 hosts: in 13, 9 and 1, 1.8 at worst.
struct DomainRouting {
  Bound bound;                                   // the least t, and its proof
  std::vector<std::vector<Crossing>> crossings;  // by class
  std::vector<std::vector<Served>> sent;         // by class, crossing and host of it: bits
};

// Domains below the levels that `units` considers count for their ingress only.
DomainRouting RouteThroughDomains(const DemandClasses& demand, const Units& units,
                                  Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
