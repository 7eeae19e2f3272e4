// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/atoms.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/timeline.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The number of messages of a schedule: pairs of devices that exchange bytes, summed over windows.
// Counts messages that rounding leaves empty too. `list` is of `moves`, which are of `segments`.
int64_t CountMessages(const PairList& list, const std::vector<Move>& moves,
                      const std::vector<Segment>& segments, const Schedule& schedule,
                      const Atoms& atoms, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
