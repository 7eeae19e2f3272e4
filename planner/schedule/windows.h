// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "planner/atoms/atoms.h"
#include "planner/network/network.h"
#include "planner/schedule/timeline.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Bytes that may be in flight on one device in one window: sent, received and copied bytes
// together. REQUIRES: window_bytes >= kWindowBytesMin.
int64_t EffectiveWindowBytes(int64_t window_bytes);

// Chooses parts and rounds, puts every move into a round, counts messages and predicts seconds.
// Does not set the peaks.
//
// Rounds. When a host has more pairs than a window may hold, pairs are dealt out to rounds. Heavy
// pairs, which carry all but a hundredth of the bits, take as few rounds as their number allows;
// every round should keep all links equally busy (placement.h). Where that number of rounds leaves
// some NIC a message more than others and this costs more than 2 % (72 messages over 60 rounds take
// as long as 120), a number that divides better is tried (72 rounds). Where rounds are more uneven
// than 1.1, six times as many are tried: heavy pairs can then be cut finer. Light pairs go where
// there is room left, or into rounds of their own that take hardly any time.
//
// Parts. At least K = bits of the busiest device / (rounds * half a window), so that windows keep
// within their limit. Relays ask for more, to fill their pipeline sooner: K parts of a plan of d
// hops take about (K + d - 1) / K of the time of its busiest link, while many windows cost
// hand-overs (kHandOverSeconds). Of all K up to 4096, the smallest is taken whose predicted seconds
// are within 1/64 of the best. The prediction counts what each hop really carries, so that copies
// inside hosts that are much faster than the network hardly ask for parts. Measured cases in which
// the price (predicted seconds / bottleneck seconds) stays high, and the reason:
// - an all-gather over 1024 replicas of a state that takes 5 ms in all is at 1.15, because nine
//   rounds (2032 pairs a host) leave it 12 parts before windows get shorter than their hand-over;
// - between NVLink domains of 64 GPUs, where 256 pairs are four per GPU, few rounds come out uneven
//   (1.18 for DeepSeek-V3, 128 to 128);
// - a broadcast of 1 GiB from one device to 512 hosts of eight takes 2.7 ms and is at 1.37, because
//   19 hops ask for more parts than fit between hand-overs (16 GiB: 1.03).
//
// RESOURCE_EXHAUSTED (reason TOO_MANY_WINDOWS) above kWindowsMax windows. `parts_min` asks for more
// parts than that, to save memory.
absl::StatusOr<Timeline> ScheduleWindows(const Moves& moves, const Atoms& atoms,
                                         const Network& network, int64_t window_bytes,
                                         int64_t parts_min, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
