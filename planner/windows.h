// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "planner/network.h"
#include "planner/plan_draft.h"

namespace remesh {

// Most device pairs of one host that may exchange a message in one window: a bound on NCCL groups.
inline constexpr int64_t kOperationsPerWindowMax = 256;
// Windows narrower than this could not hold one element of every type; smaller values count as this
// one.
inline constexpr int64_t kWindowBytesMin = 256;
inline constexpr int64_t kWindowsMax = int64_t{1} << 20;

// Bytes that may be in flight on one device in one window: sent, received and copied together.
int64_t EffectiveWindowBytes(int64_t window_bytes);

// Chooses slices and rounds, sets Move::round, counts the operations and sorts the moves by (round,
// stage).
//
// Rounds. When a host has more pairs than a window may hold, pairs are dealt out to rounds. The
// heavy ones, which carry all but a hundredth of the bits, take as few rounds as their number asks
// for, each into the round in which its sender and its receiver have least to do so far, largest
// first: every round keeps all NICs busy. The light ones go where there is room left, or into
// rounds of their own that take hardly any time. Slices. K = bits of the busiest device / (heavy
// rounds * window), and more for deep relay trees, so that filling the pipeline costs little: (K +
// stages - 1) / K. RESOURCE_EXHAUSTED (reason TOO_MANY_WINDOWS) above kWindowsMax windows.
// `slices_min` asks for more slices than that, to save memory.
absl::Status ScheduleWindows(const Network& network, int64_t window_bytes, int64_t slices_min,
                             PlanDraft& draft);

struct PairList;
// Messages: device pairs at work, summed over windows. REQUIRES: `list` is of the draft's moves.
int64_t CountOperations(const PairList& list, const PlanDraft& draft);

}  // namespace remesh
