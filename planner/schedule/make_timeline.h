// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "planner/atoms/atoms.h"
#include "planner/network/network.h"
#include "planner/schedule/timeline.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"

namespace remesh::planner {

// Moves in their windows, and the segments that they are of.
struct TimedMoves {
  std::vector<Segment> segments;
  Timeline timeline;
};

// Windows and the peaks they lead to; in more and narrower ones where the limit on memory asks for
// that. The moves as they were made are freed as soon as they have their windows: millions lie there
// twice else. RESOURCE_EXHAUSTED: TOO_MANY_WINDOWS, or MEMORY_LIMIT with the least that was needed.
absl::StatusOr<TimedMoves> MakeTimeline(const ReshardRequest& canonical, const Atoms& atoms,
                                        Moves moves, const Network& network, Budget& budget);

// RESOURCE_EXHAUSTED (MEMORY_LIMIT) where a peak is above the request's limit, if it has one.
absl::Status CheckPeaks(const ReshardRequest& canonical, const std::vector<int64_t>& peak_bytes);

}  // namespace remesh::planner
