// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/atoms/atoms.h"
#include "planner/schedule/move_pieces.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/shares.h"
#include "planner/schedule/timeline.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Over a round, a device may have this much more in flight than the busiest device on average, in
// per cent.
inline constexpr int64_t kMoreInFlight = 30;

// The most that rounding adds to a part of a move: its part and its two cuts, each to an element of
// at most 128 bits.
inline constexpr int64_t kRoundingBits = 3 * 128;

struct PlacedMoves {
  std::vector<MovePiece> pieces;  // to be cut off some of the moves
  int32_t rounds = 1;
};

// Sets the rounds of all moves, each to one of about `rounds`, within the limits on bits and
// messages per device. Reads the number of parts and the limits on parts from `schedule`. `list` is
// of `moves`.
//
// Symbols. R rounds; pair p has b_p bits, from link u to link v; W(l) is what link l can carry in
// the time of the busiest link (Shares::BitsOf). A round is even when no link l has more than W(l)
// / R to carry. p is heavy when b_p > W(u) / (512 R) or b_p > W(v) / (512 R): it would take more
// than one part in 512 of a round.
//
// Heavy pairs are dealt out first and exactly, which cuts some of their moves in two (halving.h).
// The tolerance is W(l) / R / 1024: the more even rounds are, the fewer parts make up for what is
// left of unevenness, which saves far more messages than cuts cost. Where a device would then have
// more messages than a window takes, the tolerance is raised, to W(l) / R / 2 at most: pairs are
// then cut less, and rounds come out less even. Light pairs follow, the largest first, each into
// the round where its links have least to carry.
//
// Example: R = 2, one NIC sends 600 bits to each of three others, which have as much time: W =
// 1800, all three pairs are heavy (600 > 112). Each round should carry 900: the second pair is cut
// into 300 and 300.
//
// nullopt when that takes too many windows: the rounds must then not be used.
std::optional<PlacedMoves> PlaceMoves(Moves& moves, const Atoms& atoms, const Schedule& schedule,
                                      const PairList& list, const Shares& shares, int64_t rounds,
                                      int64_t bits_max, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
