// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "planner/network/links.h"
#include "planner/plan/plan.h"

namespace remesh::planner {

// Calls visit(window, flows) for every window with flows, in order; a pair of devices comes once,
// by rising devices. Time goes by Plan::ForEachFlow(), memory by the moves of one window.
void ForEachWindow(const Plan& plan,
                   absl::FunctionRef<void(int32_t window, absl::Span<const Flow> flows)> visit);

// What the windows' seconds, each as long as its busiest link, are multiplied by so that they end
// at PlanSummary::predicted_seconds: near 1, as cuts fall between elements.
double StretchOf(const Plan& plan, const Links& links);

}  // namespace remesh::planner
