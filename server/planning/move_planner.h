// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/cache/plan_cache.h"
#include "server/controller/values/action.h"
#include "server/controller/values/event.h"
#include "server/planning/plan_desk.h"
#include "server/questions/live_topology.h"

namespace remesh::server {

// Plans the moves of executions, by the steps of execution_plan.h, each of which waits its turn at
// the desk. Thread-safe.
class MovePlanner {
 public:
  // Called on some thread, once for each plan that is asked for, unless the desk's threads stop.
  using Done = std::function<void(uint64_t id, absl::StatusOr<PlannedExecution> move)>;
  // All must outlive this, and the desk's threads must have stopped before it is destroyed.
  MovePlanner(PlanCache& plans, PlanDesk& desk, LiveTopology& topology, Done done)
      : plans_(plans), desk_(desk), topology_(topology), done_(std::move(done)) {}

  void Plan(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker);

 private:
  void PlanByName(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker);
  void PlanTargets(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker);
  // Makes the move to `target` by the plan that was found.
  void FinishTargets(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker,
                     std::shared_ptr<const PlacedState> target, PlanCache::Answer answer,
                     Timestamp start);

  PlanCache& plans_;
  PlanDesk& desk_;
  LiveTopology& topology_;
  const Done done_;
};

}  // namespace remesh::server
