// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "base/clock.h"
#include "planner/values/budget.h"
#include "server/planning/heap_meter.h"

namespace remesh::server {

// Limits of one plan, and which threads it begins on.
struct PlanningLimits {
  absl::Duration timeout = absl::Seconds(60);
  int64_t memory_bytes = int64_t{1} << 30;  // beyond what was held before
  // Questions with more pairs of boxes (see PairsOfBoxes) skip the quick threads.
  int64_t quick_pairs_max = 100'000;
  std::function<Timestamp()> now = [] { return SteadyClock().Now(); };
  std::function<int64_t()> held_bytes = HeapBytesOfThread;  // of the planning thread
};

// A budget for a plan that this thread begins now. It is spent with DEADLINE_EXCEEDED
// (PLANNING_TIMEOUT), RESOURCE_EXHAUSTED (PLANNING_MEMORY), or the status of `wanted` once that is
// not OK. `wanted` may be null; it is called only now and then, because it may take a lock. After
// `quantum` the budget is spent with a status for which IsOverstayed() is true: the work must go on
// elsewhere.
planner::Budget BudgetOf(const PlanningLimits& limits, std::function<absl::Status()> wanted,
                         absl::Duration quantum = absl::InfiniteDuration());
bool IsOverstayed(const absl::Status& status);

}  // namespace remesh::server
