// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/budget.h"

namespace remesh::planner {

// Bits from one link to another.
struct Parcel {
  int32_t id = 0;  // of the caller
  int32_t from = 0;
  int32_t to = 0;  // links of both ends: no sender is a receiver
  int64_t bits = 0;
  int32_t round = 0;  // set by DealOut()
};

// Deals parcels out to rounds so that no link has more to do in one round than in another by more
// than its tolerance, unless it has time to spare: in a round it can do room[link] / rounds bits.
// Parcels are cut where that is needed, into few parts.
//
// Symbols. R rounds; parcel p takes b_p bits from link u_p to link v_p; x_p of them go to the first
// h = R / 2 rounds. Link l has load(l) = sum of b_p over its parcels and room(l) >= load(l). The
// first half may have
//   load(l) - room(l) (R - h) / R  <=  sum of x_p over the parcels of l  <=  room(l) h / R,
// give or take the link's tolerance.
//
// By halves: start from x_p = b_p h / R, which is exact but cuts every parcel. Parcels with
// 0 < x_p < b_p are the edges of a bipartite graph of links (idle time is an edge to nobody). Round
// a cycle of it, x may be raised and lowered by turns: every link of it keeps its sum, and at the
// most that fits some parcel becomes whole. When no cycle is left the cut parcels form a forest,
// fewer than links; of these, parcels go to one half whole where both links' tolerance allows.
// Either half is dealt out likewise.
//
// Example: R = 2; parcels of 30 bits A: 1 -> 4, B: 1 -> 5, C: 2 -> 4, D: 2 -> 5. x = 15 each. Round
// the cycle A, C, D, B go +15, -15, +15, -15: A and D are whole in the first round, B and C in the
// second, every link does 30 in each.
std::vector<Parcel> DealOut(std::vector<Parcel> parcels, const std::vector<int64_t>& room,
                            const std::vector<int64_t>& tolerance, int32_t rounds,
                            Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
