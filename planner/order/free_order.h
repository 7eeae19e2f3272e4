// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/budget.h"
#include "planner/values/request.h"

namespace remesh::planner {

// Which target devices change places when their order is free: result[d] takes the place that the
// target lists of the canonical `request` give to d. One permutation of all target devices, so that
// shards which the request puts on one device stay together; devices that no target list names
// stay.
//
// Of these orders the one with the least lower bound (LB), then the least total, in which a byte
// between hosts weighs as much as 64 that devices receive from inside; on a tie the first:
// - slots to hosts by the least total: an exact assignment, where bytes that two slots of a host
//   share count twice;
// - the same after swaps of slots as long as one lowers the load (bytes that enter / NIC capacity)
//   of the busiest host: as sums over the slots of a host this bottleneck is NP-hard;
// - what the request puts on one host stays together and moves to another host as a whole: an exact
//   bottleneck assignment, least total next, where every byte enters a host once;
// - the hosts that the request names.
// Inside each host of all of these, slots go to devices by an exact bottleneck assignment of what
// devices receive, least total next. Few devices swap places at last as long as that gives less.
// Bounds and loads that differ by a thousandth count as equal, so the result's LB is at most a
// thousandth above the given order's.
//
// What limits it, the same on any machine: with more than 2^22 pairs of slots and holders slots
// stay with those of their host; with more than 2^20 edges they do too, but inside hosts devices
// are chosen; more than 256 hosts of one size keep their slots.
// Of no use once the budget is spent.
std::vector<int64_t> ChooseTargetOrder(const ReshardRequest& request,
                                       Budget& budget = Budget::Unlimited());

// The request with device `taker[d]` in the place of each target device d, all where they are when
// `taker` is empty; its order is free no more. Lists that were shared stay so.
ReshardRequest WithTargetOrder(ReshardRequest request, const std::vector<int64_t>& taker);

// How many orders this thread has chosen: planning solves assignments, looking plans up must not.
int64_t TargetOrdersChosen();

}  // namespace remesh::planner
