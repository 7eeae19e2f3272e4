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

// Per device the most bytes that its shards take at once, with what a host lays out beside them for
// as long as the move lasts: the area for what the device stages for others (relay_areas.h), and the
// one for messages on their way (transit.h). Whatever kind of memory they lie in. Boxes of shards
// are counted as hosts store them, in whole units of kShardAlignment. Lost devices hold nothing.
//
// Without donation all shards are there at once. With it, part p of a segment, whose hops end with
// d and which moves in part i,
// - takes target memory where it arrives from the beginning of cycle i + hop on,
// - gives back source memory wherever it lies at the end of cycle i + d: then every needer has it.
//   (Cycle c is the windows [c * rounds, (c + 1) * rounds).)
// Elements that nobody needs stay; what comes from a fallback may come first. `timeline` is of
// moves of `segments`.
//
// Donation is played in about `steps_max` steps at most, however many parts there are: where there
// would be more, blocks of cycles are looked at as one, in which everything comes first and goes
// last. Peaks then come out a little higher, never lower.
inline constexpr int64_t kPeakStepsMax = int64_t{1} << 24;
std::vector<int64_t> PeakBytes(const ReshardRequest& canonical, const Network& network,
                               const Atoms& atoms, const std::vector<Segment>& segments,
                               const Timeline& timeline, int64_t steps_max = kPeakStepsMax,
                               Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
