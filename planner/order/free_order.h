// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/budget.h"
#include "planner/values/request.h"

namespace remesh::planner {

// Chooses which target devices change places when their order is free: device result[d] takes the
// place that the target lists of the canonical `request` give to d. It is one permutation of all
// target devices, so that shards which the request puts on one device stay together. Devices that
// no target list names stay.
//
// Compares the orders below by lower bound (LB), then by total bytes, in which a byte between hosts
// weighs as much as 64 bytes that devices receive inside their host; on a tie takes the first:
// - slots to hosts by the least total: an exact assignment, in which bytes that two slots of a host
//   share count twice;
// - the same, after swaps of slots as long as a swap lowers the load (bytes that enter / NIC
//   capacity) of the busiest host; exactly, this bottleneck is NP-hard, because loads are sums over
//   the slots of a host;
// - the slots that the request puts on one host stay together and move to another host as a whole:
//   an exact bottleneck assignment, then least total, in which every byte enters a host once;
// - the hosts that the request names.
// In each of these, slots go to devices inside their host by an exact bottleneck assignment of the
// bytes that devices receive, then least total. Finally a few devices swap places as long as that
// lowers the result. Bounds and loads that differ by less than a thousandth count as equal, so the
// result's LB is at most a thousandth above the given order's.
// thousandth above the given order's.
//
// Limits, the same on any machine: with more than 2^22 pairs of slots and holders, slots stay with
// the others of their host; with more than 2^20 edges they do too, but devices inside hosts are
// chosen; more than 256 hosts of one size keep their slots. The result must not be used once the
// budget is spent.
std::vector<int64_t> ChooseTargetOrder(const ReshardRequest& request,
                                       Budget& budget = Budget::Unlimited());

// The request with device `taker[d]` in the place of each target device d; all stay when `taker` is
// empty. The order of the result is no longer free. Device lists that were shared stay shared.
ReshardRequest WithTargetOrder(ReshardRequest request, const std::vector<int64_t>& taker);

// How many orders this thread has chosen. Tests use it to show that only planning chooses orders,
// and looking up plans does not.
int64_t TargetOrdersChosen();

}  // namespace remesh::planner
