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
// Rounds. Pairs are dealt out to rounds where a device has more of them than a window may hold, or
// where messages would be so small that they cost time: a pair sends a message in every part, and
// the limit on the bytes of windows asks for fewer parts when there are more rounds. Every round
// should keep all links equally busy (placement.h). A schedule is good when, regardless of what
// messages cost beside their bytes, it takes at most 2 % longer than the busiest link; in short
// plans, whose hand-overs count, more. One round is tried first, unless a device has too many
// pairs: it is even. Then come as many rounds as make messages of about 32 MiB, or 64 MiB without
// relays, but no more than relays have parts for, and fewer until a schedule is good; where messages
// cost much, numbers of rounds beside the best. The least predicted seconds win, among good
// schedules if there are any; fewer messages win where they cost little time, in proportion to what
// is saved.
//
// Parts. At least K = bits of the busiest device / (rounds * room of a window), so that windows keep
// within their limit: their room is what rounding and uneven rounds leave, half of a window or
// more. Relays ask for more, to fill their pipeline sooner: K parts of a plan of d hops take about
// (K + d - 1) / K of the time of its busiest link, while many windows cost hand-overs
// (kHandOverSeconds) and messages. Of all K up to 4096, the smallest is taken whose predicted seconds
// are within 1/64 of the best, among those with a good schedule if there are any.
// The prediction counts what each hop really carries, so that copies inside hosts that are much
// faster than the network hardly ask for parts. Measured cases in which the price stays high, and
// the reason:
// - a broadcast of 1 GiB from one device to 512 hosts of eight takes 2.7 ms and is at 1.37, because
//   19 hops ask for more parts than fit between hand-overs (16 GiB: 1.03).
//
// RESOURCE_EXHAUSTED (reason TOO_MANY_WINDOWS) above kWindowsMax windows. `parts_min` asks for more
// parts than that, to save memory. Takes moves.moves, which are most of the memory of a large plan:
// the timeline has them. REQUIRES: all rounds of `moves` are 0.
absl::StatusOr<Timeline> ScheduleWindows(Moves& moves, const Atoms& atoms, const Network& network,
                                         int64_t window_bytes, int64_t parts_min,
                                         Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
