// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/routing/transportation.h"

namespace remesh::planner {

// Deals out copies of whole classes before any copy is split: sent[a][k] is a multiple of class a's
// bits, for host k of (holders, then needers). Starts with the largest classes; holders give what
// they have room for (which keeps trees shallow), then needers in turn, those with most room first.
// No class gets more than |needers| copies. A class of which no holder sends a copy keeps at least
// one copy undealt, because the root must leave a holder. Reduces `room` (bits, by host) by what is
// dealt.
std::vector<Served> DealWholeCopies(const DemandClasses& demand, std::vector<int64_t>& room,
                                    Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
