// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "server/cache/plan_store.h"
#include "server/controller/values/controller_options.h"
#include "server/planning/planning_budget.h"

namespace remesh::server {

// What a core is to be like, apart from what it is given to work with.
struct CoreOptions {
  ControllerOptions controller;
  int64_t plan_cache_bytes = int64_t{256} << 20;
  int64_t plan_cache_entries = 0;  // 0: no limit
  absl::Duration plan_cache_age = absl::InfiniteDuration();
  PlanStore::Options plan_store;  // an empty path: plans are kept in memory only
  int planner_threads = 2;        // for large plans; small ones and executions have other threads
  PlanningLimits planning;
  int stream_threads = 8;      // for GetHostProgram, and as many again for other streams
  size_t waiting_max = 10000;  // questions that may wait for a thread
  // GetHostPrograms that may wait: all hosts of a move ask at once. Each caller may have a quarter,
  // and all hosts may be one caller: four times as many as there may be hosts.
  size_t programs_waiting_max = 80000;
  size_t message_bytes_max = size_t{64} << 20;  // of one that gRPC sends
};

}  // namespace remesh::server
