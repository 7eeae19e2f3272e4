// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/atoms/demand_classes.h"
#include "planner/moves/moves.h"
#include "planner/moves/striping.h"
#include "planner/network/network.h"
#include "planner/routing/make_routings.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"

namespace remesh::planner {

// The moves of the given strategy. Incomplete once the budget is spent. Only kOptimal deals.
Moves MakeMoves(Strategy strategy, const Atoms& atoms, const DemandClasses& demand,
                const Routings& routings, const Network& network, Budget& budget,
                Dealing dealing = Dealing::kInSequence);

}  // namespace remesh::planner
