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

// Answers questions from the cache, or by planning. Blocks for as long as planning takes: not for
// strands and gRPC's threads.

// Plans, and takes the time.
absl::StatusOr<CachedPlan> ComputePlan(const planner::CanonicalRequest& request,
                                       planner::Budget& budget = planner::Budget::Unlimited());

// PlanService.CreatePlan for a question that was answered before in the same words, while memory
// has the plan: quick, and touches neither the planner nor the disk. `workers`: as below.
std::optional<v1::CreatePlanResponse> AnswerAgain(PlanCache& cache,
                                                  const v1::CreatePlanRequest& request,
                                                  const planner::Topology* workers);

// PlanService.CreatePlan as a question and its answer, found since `start`. `workers`: what an
// empty topology means; may be null.
absl::StatusOr<PlanCache::Question> QuestionOf(const v1::CreatePlanRequest& request,
                                               const planner::Topology* workers,
                                               planner::Budget& budget);
v1::CreatePlanResponse ResponseOf(PlanCache& cache, const v1::CreatePlanRequest& request,
                                  const planner::Topology* workers, const PlanCache::Answer& answer,
                                  Timestamp start);
// Both, and what is between them.
absl::StatusOr<v1::CreatePlanResponse> CreatePlan(PlanCache& cache,
                                                  const v1::CreatePlanRequest& request,
                                                  const planner::Topology* workers);

// Asks the questions of all pins on disk again, so that their plans are in memory, pinned. What
// cannot be answered any more is logged and no longer pinned.
void RestorePins(PlanCache& cache, DiskTier& disk);

// Finds the plan or makes it. Refusals are in the words of whoever asks.
absl::StatusOr<PlanCache::Answer> FindOrPlan(PlanCache& cache, const PlanCache::Question& question);
// How an answer was found, in the time since `start`.
v1::Planning PlanningOf(v1::Planning::Cache cache, Timestamp start);

}  // namespace remesh::server
