// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "planner/network.h"
#include "planner/plan_rep.h"

namespace remesh {

// Most device pairs of one host that may exchange a message in one window: a bound on NCCL groups.
inline constexpr int64_t kOperationsPerWindowMax = 256;
// Windows narrower than this could not hold one element of every type; smaller values count as this
// one.
inline constexpr int64_t kWindowBytesMin = 256;
inline constexpr int64_t kWindowsMax = int64_t{1} << 20;

// Bytes that may be in flight on one device in one window: sent, received and copied together.
int64_t EffectiveWindowBytes(int64_t window_bytes);

// Chooses slices and rounds, sets Move::round and sorts the moves by (round, stage). Rounds are as
// few as the limit on pairs asks for; the slices then follow from the busiest device: K = its bits
// / (rounds * window). Moves are put into the first round that has room for a slice of them,
// rounding included, at both ends. RESOURCE_EXHAUSTED (reason TOO_MANY_WINDOWS) above kWindowsMax
// windows.
absl::Status ScheduleWindows(const Network& network, int64_t window_bytes, Plan::Rep& rep);

}  // namespace remesh
