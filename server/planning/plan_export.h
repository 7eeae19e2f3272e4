// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/values/budget.h"
#include "planner/values/topology.h"
#include "remesh/v1/plan.pb.h"
#include "server/cache/plan_cache.h"

namespace remesh::server {

// Plans as files: see proto/convert/exported_plan.h. Both functions block.

// NOT_FOUND as from PlanCache::Find().
absl::StatusOr<std::string> ExportPlan(PlanCache& cache, const std::string& name);

// Stores the plan in the request's data once it is checked. `workers`: what an empty topology of
// the request's spec means; may be null.
absl::StatusOr<v1::Plan> ImportPlan(PlanCache& cache, const v1::ImportPlanRequest& request,
                                    const planner::Topology* workers,
                                    planner::Budget& budget = planner::Budget::Unlimited());

}  // namespace remesh::server
