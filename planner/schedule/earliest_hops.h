// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/moves/moves.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Lowers the hops of moves as far as their rounds allow: a move needs no later cycle than what it
// passes on where its round comes later in the cycle. So a pipeline fills in fewer cycles than its
// paths have steps. Returns the number of hops.
//
// Example: 0 -> 1 in round 1, 1 -> 2 in round 2, 2 -> 3 in round 0 have hops 0, 0, 1.
//
// REQUIRES: moves of `segments` segments; in the order of (hop, round), what a move passes on
// arrives before it leaves; and no device gets a bit twice in one space. Moves must not be
// used once the budget is spent.
int32_t SetEarliestHops(size_t segments, std::vector<Move>& moves, Budget& budget);

}  // namespace remesh::planner
