// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_rep.h"
#include "planner/values/budget.h"
#include "proto/convert/plan_spec.h"
#include "tests/fuzz/target.h"

namespace remesh::fuzz {

// Whether `request` is small enough to be planned some hundred times a second.
inline bool IsSmall(const planner::ReshardRequest& request) {
  size_t devices = 0, boxes = 0;
  for (const planner::Host& host : request.topology.hosts) devices += host.device_ids.size();
  for (const planner::ArraySpec& array : request.arrays) {
    for (const planner::Placement* side : {&array.source, &array.target}) {
      boxes += static_cast<size_t>(side->layout->device_count);
    }
  }
  return devices <= 64 && request.topology.hosts.size() <= 16 && boxes <= 512;
}

// What is small may still take long, when a link is so slow that there are thousands of windows.
inline planner::Budget BudgetOfSeconds(int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  return planner::Budget([end] {
    if (std::chrono::steady_clock::now() < end) return absl::OkStatus();
    return absl::CancelledError("it takes too long");
  });
}

// Whether a plan's transfers can be visited in no time: of hostile ones there may be 2^62.
inline bool IsShort(const planner::Plan& plan) {
  const planner::PlanRep& rep = plan.rep();
  const int64_t parts =
      static_cast<int64_t>(rep.moves.size()) * (int64_t{rep.schedule.parts} + rep.schedule.hops);
  return parts <= 1 << 12 && rep.atoms.size() <= 1 << 10 && plan.summary().windows <= 1 << 16;
}

}  // namespace remesh::fuzz
