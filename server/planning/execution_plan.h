// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "planner/values/budget.h"
#include "planner/values/topology.h"
#include "remesh/v1/plan.pb.h"
#include "server/cache/plan_cache.h"
#include "server/controller/action.h"
#include "server/controller/placed.h"

namespace remesh::server {

// What executions move by, found in the cache or planned. Blocks for as long as planning takes: not
// for strands and gRPC's threads.

// A state's way to its targets, as a question and its answer. `target` is where it ends, but for a
// free order.
struct MoveQuestion {
  PlanCache::Question question;
  std::shared_ptr<const PlacedState> target;
};
absl::StatusOr<MoveQuestion> QuestionOf(const StartPlanning& move, const planner::Topology* workers,
                                        planner::Budget& budget);
absl::StatusOr<PlannedExecution> MoveOf(const StartPlanning& move,
                                        std::shared_ptr<const PlacedState> target,
                                        const PlanCache::Answer& answer, Timestamp start);
// Its way by a plan that exists: FAILED_PRECONDITION (PLAN_SOURCE_MISMATCH) when that starts
// elsewhere. Plans nothing.
absl::StatusOr<PlannedExecution> MoveByName(PlanCache& cache, const StartPlanning& move);
// Either, and what is between.
absl::StatusOr<PlannedExecution> PlanMove(PlanCache& cache, const StartPlanning& question,
                                          const planner::Topology* workers);

}  // namespace remesh::server
