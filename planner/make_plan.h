// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Plans `request`. The same request gives the same plan on any machine. RESOURCE_EXHAUSTED (reason
// MEMORY_LIMIT, metadata "needed_bytes") when memory_limit_bytes cannot be met; DATA_LOSS when
// boxes are lost and no fallback is declared; the budget's status once `budget` is spent.
absl::StatusOr<Plan> MakePlan(const CanonicalRequest& request,
                              Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
