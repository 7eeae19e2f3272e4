// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "planner/values/budget.h"
#include "planner/values/topology.h"
#include "remesh/v1/plan.pb.h"
#include "server/cache/plan_cache.h"
#include "server/cache/question_memo.h"
#include "server/controller/values/action.h"
#include "server/controller/values/placed.h"

namespace remesh::server {

// Finds the plans of executions in the cache, or computes them. Blocks for as long as planning
// takes, so do not call it on strands or gRPC's threads.

// The move of a state to its targets, as a question and from its answer. `target` is the state's
// placement after the move, unless the target order is free. There is no question if nothing moves,
// for then the move is MovesNothing(), or if the same one, in the same words, was answered before
// with a plan that is still in memory.
struct MoveQuestion {
  PlanCache::Question question;
  std::shared_ptr<const PlacedState> target;
  bool moves_nothing = false;
  QuestionDigest words = {};  // for PlanCache::memo(), once there is an answer
  std::optional<PlanCache::Answer> answer = std::nullopt;
};
absl::StatusOr<MoveQuestion> QuestionOf(const StartPlanning& move, const planner::Topology* workers,
                                        PlanCache& cache, planner::Budget& budget);
absl::StatusOr<PlannedExecution> MoveOf(const StartPlanning& move,
                                        std::shared_ptr<const PlacedState> target,
                                        const PlanCache::Answer& answer, Timestamp start,
                                        planner::Budget& budget);
// The move to where the state is.
PlannedExecution MovesNothing(const StartPlanning& move);
// The move by an existing plan. FAILED_PRECONDITION (PLAN_SOURCE_MISMATCH) when that plan starts
// from another layout, unless it leads to where the state is. Plans nothing. `workers`: as for
// AddNamedWorkers().
absl::StatusOr<PlannedExecution> MoveByName(PlanCache& cache, const StartPlanning& move,
                                            const planner::Topology* workers,
                                            planner::Budget& budget);

}  // namespace remesh::server
