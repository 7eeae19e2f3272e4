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

// Per device the most bytes that source shards, target shards and staging take at once, whatever
// kind of memory they lie in. Each box of a shard counts in whole bytes. Lost devices hold nothing.
//
// Without donation everything is there at once. With it, part p of a segment, whose hops end with
// d and which moves in part i,
// - takes target memory, and staging, where it arrives from the beginning of cycle i + hop on,
// - gives back source memory wherever it lies, and staging, at the end of cycle i + d: then every
//   needer has it. (Cycle c is the windows [c * rounds, (c + 1) * rounds).)
// Elements that nobody needs stay; what comes from a fallback may come first. `timeline` is of
// moves of `segments`.
//
// Takes about `steps_max` steps at most, however many parts there are: where there would be more,
// blocks of cycles are looked at as one, in which everything comes first and goes last. Peaks then
// come out a little higher, never lower.
inline constexpr int64_t kPeakStepsMax = int64_t{1} << 24;
std::vector<int64_t> PeakBytes(const ReshardRequest& canonical, const Network& network,
                               const Atoms& atoms, const std::vector<Segment>& segments,
                               const Timeline& timeline, int64_t steps_max = kPeakStepsMax,
                               Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
