// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "planner/plan/plan.h"
#include "planner/values/request.h"

namespace remesh::testing {

// Plays `transfers` element by element, straight from the boxes of the layouts, and holds every
// device to `peak_bytes`: at no time do its source shards, target shards and staging take more
// bits. What a window brings is there from the window's beginning. With donation the source and the
// staging of an element are free after the window in which the last device in need got it. INTERNAL
// with the first device above its peak. REQUIRES: CheckTransfers() found the transfers right;
// arrays of some thousand elements; `request` is in the ids of the transfers.
absl::Status CheckPeaks(const planner::ReshardRequest& request,
                        const std::vector<planner::Transfer>& transfers,
                        const std::vector<int64_t>& peak_bytes);

}  // namespace remesh::testing
