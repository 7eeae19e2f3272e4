// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/atoms/atoms.h"
#include "planner/network/network.h"
#include "planner/schedule/moves.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The baselines. No cut may move: slack_bits is not set.

// Every device pulls what it needs and does not hold from one holder: in its own host if there is
// one, else in turn.
Moves MakeP2pMoves(const Atoms& atoms, const Network& network,
                   Budget& budget = Budget::Unlimited());

// One device (the first that may carry) gathers everything and sends it to everybody who needs it.
Moves MakeGatherMoves(const Atoms& atoms, const Network& network,
                      Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
