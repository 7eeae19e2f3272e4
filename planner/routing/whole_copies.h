// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/routing/transportation.h"

namespace remesh::planner {

// Copies of whole classes, dealt out before anything is split: sent[a][k] is a multiple of class
// a's bits, for host k of (holders, needers). The largest classes come first; holders give what
// they have room for (shallow trees), then needers do in turn, those with most room first. No class
// gets more than |needers| copies; a class of which no holder sends one keeps at least one copy
// undealt, because the root must leave a holder. `room` (bits, by host) falls by what is dealt.
std::vector<Served> DealWholeCopies(const DemandClasses& demand, std::vector<int64_t>& room,
                                    Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
