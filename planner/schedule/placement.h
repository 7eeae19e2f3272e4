// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/atoms/atoms.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/shares.h"
#include "planner/schedule/timeline.h"
#include "planner/values/budget.h"

namespace remesh {

struct PlacedMoves {
  std::vector<Move> moves;  // each with its round; what was cut off others at the end
  int32_t rounds = 1;
};

// Puts every move into one of about `rounds` rounds under the limits on bits per device and pairs
// per host. Of `schedule` it reads parts and what parts may be like; `list` is of `moves`.
//
// Heavy pairs, those that would take more than one part in eight of a round, are dealt out first
// and exactly, which cuts some of their moves in two (halving.h). They are cut less, and rounds
// come out less even, where a host would have more pairs in a round than a window takes. Light
// pairs follow, the largest first, each into the round where its links have least to do.
//
// Nothing where that takes too many windows.
std::optional<PlacedMoves> PlaceMoves(const Moves& moves, const Atoms& atoms,
                                      const Schedule& schedule, const PairList& list,
                                      const Shares& shares, int64_t rounds, int64_t bits_max,
                                      Budget& budget = Budget::Unlimited());

}  // namespace remesh
