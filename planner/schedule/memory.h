// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/atoms.h"
#include "planner/network/network.h"
#include "planner/schedule/timeline.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"

namespace remesh::planner {

// For each device, the most bytes that its shards take at once, plus the two areas that a host lays
// out beside them for the whole move: the one for what the device stages for others
// (relay_areas.h), and the one for messages on their way (transit.h). Counts all kinds of memory
// together. Counts boxes of shards as hosts store them, in whole units of kShardAlignment. Lost
// devices hold nothing.
//
// Without donation all shards are in memory at once. With donation, let d be the last hop of a
// segment. The part of the segment that moves in turn i
// - takes target memory where it arrives, from the beginning of cycle i + hop on;
// - frees source memory wherever it lies, at the end of cycle i + d, when every needer has it.
// (Cycle c is the windows [c * rounds, (c + 1) * rounds).) Elements that no device needs stay;
// elements from a fallback may arrive first. `timeline` is of moves of `segments`.
//
// Simulates donation in about `steps_max` steps at most, however many parts there are. Where there
// would be more steps, it takes blocks of cycles as one step, in which everything arrives first and
// leaves last. Peaks then come out a little higher, never lower.
inline constexpr int64_t kPeakStepsMax = int64_t{1} << 24;
std::vector<int64_t> PeakBytes(const ReshardRequest& canonical, const Network& network,
                               const Atoms& atoms, const std::vector<Segment>& segments,
                               const Timeline& timeline, int64_t steps_max = kPeakStepsMax,
                               Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
