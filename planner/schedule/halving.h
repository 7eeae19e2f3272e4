// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/budget.h"

namespace remesh {

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
// By halves: half of the rounds get half of every parcel; bits then go round cycles of parcels,
// from one half to the other and back, which leaves what each link does as it is, until what is
// still cut forms a forest: fewer parcels than links. Of these, parcels go to one half whole where
// the tolerance of both links allows. Either half is dealt out likewise.
std::vector<Parcel> DealOut(std::vector<Parcel> parcels, const std::vector<int64_t>& room,
                            const std::vector<int64_t>& tolerance, int32_t rounds,
                            Budget& budget = Budget::Unlimited());

}  // namespace remesh
