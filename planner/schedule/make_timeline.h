// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "planner/atoms/atoms.h"
#include "planner/network/network.h"
#include "planner/schedule/timeline.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"

namespace remesh::planner {

// Moves in their windows, and the segments that they move.
struct TimedMoves {
  std::vector<Segment> segments;
  Timeline timeline;
};

// Puts moves into windows and computes the peaks of memory. Uses more and narrower windows where
// the limit on memory asks for that. Frees `moves` as soon as the moves have their windows, because
// otherwise there would be two copies of millions of moves. RESOURCE_EXHAUSTED: TOO_MANY_WINDOWS,
// or MEMORY_LIMIT with the least number of bytes needed.
absl::StatusOr<TimedMoves> MakeTimeline(const ReshardRequest& canonical, const Atoms& atoms,
                                        Moves moves, const Network& network, Budget& budget);

// RESOURCE_EXHAUSTED (MEMORY_LIMIT) when a peak is above the request's limit, if it has one.
absl::Status CheckPeaks(const ReshardRequest& canonical, const std::vector<int64_t>& peak_bytes);

}  // namespace remesh::planner
