// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/canonical/canonical.h"
#include "planner/plan/plan_draft.h"
#include "planner/routing/network.h"

namespace remesh {

// Per device the most bytes that source shards, target shards and staging take at once, whatever
// kind of memory they lie in. Each box of a shard counts in whole bytes. Lost devices hold nothing.
//
// Without donation everything is there at once. With it, slice i of a segment (of K)
// - takes target memory where it arrives from cycle i + stage on,
// - gives back source memory wherever it lies, and staging, after cycle i + d, d being the last
// stage of the segment: then
//   every needer has it.
// A device's bytes are thus a sum of ramps of K cycles each; the peak is at one of their ends.
std::vector<int64_t> PeakBytes(const ReshardRequest& canonical, const Network& network,
                               const PlanDraft& draft);

}  // namespace remesh
