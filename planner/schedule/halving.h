// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/budget.h"

namespace remesh::planner {

// Bits from one link to another.
struct Parcel {
  int32_t id = 0;  // the caller's
  int32_t from = 0;
  int32_t to = 0;     // links of both ends; no link is both a sender and a receiver
  int32_t round = 0;  // set by DealOut()
  int64_t bits = 0;
};

// Deals parcels out to rounds so that the work of a link in one round exceeds its work in another
// by no more than its tolerance, unless the link has time to spare: in a round it can carry
// room[link] / rounds bits. Cuts parcels where that is needed, into few parts.
//
// Symbols. R rounds; parcel p takes b_p bits from link u_p to link v_p; x_p of them go to the first
// h = R / 2 rounds. Link l has load(l) = sum of b_p over its parcels and room(l) >= load(l). In the
// first half,
//   load(l) - room(l) (R - h) / R  <=  sum of x_p over the parcels of l  <=  room(l) h / R,
// give or take the link's tolerance.
//
// By halves: starts from x_p = b_p h / R, which is exact but cuts every parcel. Parcels with 0 <
// x_p < b_p are the edges of a bipartite graph of links (idle time is an edge to an extra node).
// Around a cycle of this graph, x may be raised and lowered alternately: the sum at every link of
// the cycle stays the same, and the largest change that fits makes some parcel whole; of the two
// ways round, the one that frees the link with more cut parcels, since each is a message there in
// every round. When no cycle is left, the cut parcels form a forest, so there are fewer of them than
// links. Each of these goes to one half whole where the tolerance of both its links allows. Both
// halves are then dealt out likewise.
//
// Example: R = 2; parcels of 30 bits A: 1 -> 4, B: 1 -> 5, C: 2 -> 4, D: 2 -> 5. x = 15 each.
// Around the cycle A, C, D, B the changes are +15, -15, +15, -15: A and D go whole to the first
// round, B and C to the second, and every link carries 30 bits in each.
//
// Sets the rounds of `parcels`, of which there may be millions. Of a parcel that is cut, the one of
// the earliest round stays there; returns the others, in no order. REQUIRES: no parcel is empty.
std::vector<Parcel> DealOut(std::vector<Parcel>& parcels, const std::vector<int64_t>& room,
                            const std::vector<int64_t>& tolerance, int32_t rounds,
                            Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
