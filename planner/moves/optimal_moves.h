// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/atoms/demand_classes.h"
#include "planner/moves/moves.h"
#include "planner/moves/striping.h"
#include "planner/network/network.h"
#include "planner/routing/mixed_routes.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Turns routes between hosts into segments and moves between devices. No NIC is busier than
// `routes.t` if striping can avoid it. Does not set slack_bits. See segment_moves.h.
Moves MakeOptimalMoves(const Atoms& atoms, const DemandClasses& demand, const RoutePlan& routes,
                       const Network& network, Budget& budget = Budget::Unlimited(),
                       Dealing dealing = Dealing::kInSequence);

}  // namespace remesh::planner
