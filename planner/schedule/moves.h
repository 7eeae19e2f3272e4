// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/network/network.h"
#include "planner/routing/trees.h"
#include "planner/schedule/plan_draft.h"
#include "planner/values/rational.h"

namespace remesh {

// Turns routes between hosts into segments and moves between devices, appended to `draft`; no NIC
// is busier than `t0` if striping can help it. Rounds are not set. See segment_moves.h.
void MakeOptimalMoves(const DemandClasses& demand, const std::vector<Route>& routes,
                      const Rational& t0, const Network& network, PlanDraft& draft);

// Every device pulls what it needs and does not hold from one holder: in its own host if there is
// one, else in turn.
void MakeP2pMoves(const Network& network, PlanDraft& draft);

// One device (the first that may carry) gathers everything and sends it to everybody who needs it.
void MakeGatherMoves(const Network& network, PlanDraft& draft);

}  // namespace remesh
