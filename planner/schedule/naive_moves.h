// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/atoms/atoms.h"
#include "planner/network/network.h"
#include "planner/schedule/moves.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The baseline strategies. They do not set slack_bits: no cut may move.

// Every device pulls what it needs and does not hold from one holder: one in its own host if there
// is one, else holders in turn.
Moves MakeP2pMoves(const Atoms& atoms, const Network& network,
                   Budget& budget = Budget::Unlimited());

// One device (the first that may carry) gathers everything and sends it to all devices that need
// it.
Moves MakeGatherMoves(const Atoms& atoms, const Network& network,
                      Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
