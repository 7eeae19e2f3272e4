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

namespace remesh::planner {

struct PlacedMoves {
  std::vector<Move> moves;  // each with its round; what was cut off others at the end
  int32_t rounds = 1;
};

// Puts every move into one of about `rounds` rounds under the limits on bits per device and pairs
// per host. Of `schedule` it reads parts and what parts may be like; `list` is of `moves`.
//
// Symbols. R rounds; pair p has b_p bits, from link u to link v; W(l) is what link l can do in the
// time of the busiest (Shares::BitsOf). A round is even when no link l has more than W(l) / R to
// do. p is heavy when b_p > W(u) / (8 R) or b_p > W(v) / (8 R): it would take more than one part in
// eight of a round.
//
// Heavy pairs are dealt out first and exactly, which cuts some of their moves in two (halving.h):
// within a tolerance of W(l) / R / 64, and, where a host would then have more pairs in a round than
// a window takes, of more, up to a half. They are then cut less, and rounds come out less even.
// Light pairs follow, the largest first, each into the round where its links have least to do.
//
// Example: R = 2, one NIC sends 600 bits to each of three others, which have as much time: W =
// 1800, all three are heavy (600 > 112). Each round should have 900: the second pair is cut into
// 300 and 300.
//
// Nothing where that takes too many windows.
std::optional<PlacedMoves> PlaceMoves(const Moves& moves, const Atoms& atoms,
                                      const Schedule& schedule, const PairList& list,
                                      const Shares& shares, int64_t rounds, int64_t bits_max,
                                      Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
