// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "planner/values/budget.h"
#include "remesh/v1/plan.pb.h"
#include "server/cache/plan_cache.h"

namespace remesh::server {

// Renders the plan as a page or a trace. INVALID_ARGUMENT: "form", "checkpoint_bytes_per_second".
absl::StatusOr<std::string> RenderPlan(const BoundPlan& plan, const v1::RenderPlanRequest& request,
                                       planner::Budget& budget = planner::Budget::Unlimited());

}  // namespace remesh::server
