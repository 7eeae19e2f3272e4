// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "planner/values/budget.h"
#include "planner/values/topology.h"
#include "remesh/v1/plan.pb.h"
#include "server/cache/plan_cache.h"

namespace remesh::server {

// Answers questions for plans from the cache or by planning. Blocks for as long as planning takes,
// so do not call it on strands or gRPC's threads.

// Computes a plan, which may take long.
absl::StatusOr<CachedPlan> ComputePlan(const planner::CanonicalRequest& request,
                                       planner::Budget& budget = planner::Budget::Unlimited());

// Answers PlanService.CreatePlan for a question that was answered before in the same words, while
// memory has the plan. Quick; uses neither the planner nor the disk. `workers`: as below.
std::optional<v1::CreatePlanResponse> AnswerAgain(PlanCache& cache,
                                                  const v1::CreatePlanRequest& request,
                                                  const planner::Topology* workers);

// PlanService.CreatePlan, as a question and as the response to its answer, which was found since
// `start`. `workers`: what an empty topology means; may be null.
absl::StatusOr<PlanCache::Question> QuestionOf(const v1::CreatePlanRequest& request,
                                               const planner::Topology* workers,
                                               planner::Budget& budget);
v1::CreatePlanResponse ResponseOf(PlanCache& cache, const v1::CreatePlanRequest& request,
                                  const planner::Topology* workers, const PlanCache::Answer& answer,
                                  Timestamp start);
// Makes the question, finds or computes its answer, and makes the response.
absl::StatusOr<v1::CreatePlanResponse> CreatePlan(PlanCache& cache,
                                                  const v1::CreatePlanRequest& request,
                                                  const planner::Topology* workers);

// Asks the questions of all pins on disk again, so that memory has their plans, pinned. A question
// that can no longer be answered is logged and unpinned.
void RestorePins(PlanCache& cache, DiskTier& disk);

// Finds the plan or computes it. Errors use the names of the caller who asks.
absl::StatusOr<PlanCache::Answer> FindOrPlan(PlanCache& cache, const PlanCache::Question& question);
// How an answer was found, and the time since `start`.
v1::Planning PlanningOf(v1::Planning::Cache cache, Timestamp start);

}  // namespace remesh::server
