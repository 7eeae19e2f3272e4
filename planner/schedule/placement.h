// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/network/network.h"
#include "planner/schedule/plan_draft.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/shares.h"

namespace remesh {

// Sets the round of every move, and schedule.rounds, to about `rounds` of them under the limits on
// bits per device and pairs per host. REQUIRES: schedule.slices; `list` is of the draft's moves.
//
// Heavy pairs, those that would take more than one part in eight of a round, are dealt out first
// and exactly, which cuts some of their moves in two (halving.h). They are cut less, and rounds
// come out less even, where a host would have more pairs in a round than a window takes. Light
// pairs follow, the largest first, each into the round where its links have least to do.
//
// False where that takes too many windows.
bool PlaceMoves(const PairList& list, const Shares& shares, int64_t rounds, int64_t bits_max,
                const Network& network, PlanDraft& draft);

}  // namespace remesh
