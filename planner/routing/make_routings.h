// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/atoms/demand_classes.h"
#include "planner/network/network.h"
#include "planner/routing/domain_routing.h"
#include "planner/routing/lower_bound.h"
#include "planner/routing/mixed_routes.h"
#include "planner/routing/routing.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"

namespace remesh::planner {

// The result of routing: how much each host should send to which others, and the bounds on it.
struct Routings {
  Bound lower;            // LB: holds for any plan
  Bound reachable;        // T0: for plans without third hosts, disregarding uplinks
  Routing hosts;          // amounts that reach T0
  DomainRouting domains;  // with uplinks; empty, and its bound 0, where there are no domains
  RoutePlan routes;       // trees for these amounts; see MakeRoutings()
};

// Bounds and amounts, without trees. Incomplete once the budget is spent.
Routings BoundRoutings(const Atoms& atoms, const DemandClasses& demand, const Network& network,
                       Budget& budget = Budget::Unlimited());

// The same, and for Strategy::kOptimal also trees. Where uplinks bind, uses trees that enter each
// domain once, or a mix of both, if that makes the busiest link less busy.
Routings MakeRoutings(Strategy strategy, const Atoms& atoms, const DemandClasses& demand,
                      const Network& network, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
