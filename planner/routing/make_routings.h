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

// Who should send how much to whom between hosts, and what nobody can beat.
struct Routings {
  Bound lower;            // LB: true of any plan
  Bound reachable;        // T0: of plans without third hosts, uplinks aside
  Routing hosts;          // amounts that show T0
  DomainRouting domains;  // with uplinks; empty, and its bound 0, where there are no domains
  RoutePlan routes;       // trees of these amounts; see MakeRoutings()
};

// Bounds and amounts, without trees. Incomplete once the budget is spent.
Routings BoundRoutings(const Atoms& atoms, const DemandClasses& demand, const Network& network,
                       Budget& budget = Budget::Unlimited());

// The same, for Strategy::kOptimal with trees: where uplinks bind, those that enter each domain
// once, or a mix of both, if that makes the busiest link less busy.
Routings MakeRoutings(Strategy strategy, const Atoms& atoms, const DemandClasses& demand,
                      const Network& network, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
