// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "planner/plan/plan.h"
#include "planner/values/request.h"

namespace remesh::testing {

// Plays `transfers` element by element, straight from the boxes of the layouts, and holds every
// device to `peak_bytes`: at no time do its source shards, target shards, what it stages for others
// and what it has on its way to and from other hosts take more bits. What a window brings is there
// from the window's beginning, and what is sent in a window is on its way until the next but one
// begins, as is what a device staged and last passed on in it. With donation the source of an
// element is free after the window in which the last device in need got it. INTERNAL
// with the first device above its peak. REQUIRES: CheckTransfers() found the transfers right;
// arrays of some thousand elements; `request` is in the ids of the transfers.
absl::Status CheckPeaks(const planner::ReshardRequest& request,
                        const std::vector<planner::Transfer>& transfers,
                        const std::vector<int64_t>& peak_bytes);

}  // namespace remesh::testing
