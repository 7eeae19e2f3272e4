// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "base/clock.h"
#include "planner/values/budget.h"
#include "server/planning/heap_meter.h"

namespace remesh::server {

// What one plan may take, and where it begins.
struct PlanningLimits {
  absl::Duration timeout = absl::Seconds(60);
  int64_t memory_bytes = int64_t{1} << 30;  // beside what was held before
  // Questions of more pairs of boxes (see PairsOfBoxes) do not try the threads for quick work.
  int64_t quick_pairs_max = 100'000;
  std::function<Timestamp()> now = [] { return SteadyClock().Now(); };
  std::function<int64_t()> held_bytes = HeapBytesOfThread;  // by the thread that plans
};

// For a plan that this thread begins now. Spent with DEADLINE_EXCEEDED (PLANNING_TIMEOUT),
// RESOURCE_EXHAUSTED (PLANNING_MEMORY), or with what `wanted` says when it is no longer OK; that is
// asked now and then, for it may take a lock. May be null. After `quantum` of time it is spent with
// a status that IsOverstayed(): the work goes on elsewhere.
planner::Budget BudgetOf(const PlanningLimits& limits, std::function<absl::Status()> wanted,
                         absl::Duration quantum = absl::InfiniteDuration());
bool IsOverstayed(const absl::Status& status);

}  // namespace remesh::server
