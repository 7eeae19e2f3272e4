// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "planner/network/links.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Calls visit(window, flows) for every window with flows, in order. A pair of devices appears once
// in `flows`, by rising devices. Takes the time of Plan::ForEachFlow() and memory for the moves of
// one window. Ends early when the budget is spent.
void ForEachWindow(const Plan& plan,
                   absl::FunctionRef<void(int32_t window, absl::Span<const Flow> flows)> visit,
                   Budget& budget = Budget::Unlimited());

// The factor by which the seconds of all windows, each as long as its busiest link, must be
// multiplied to end at PlanSummary::predicted_seconds. Near 1; not exactly, because cuts fall
// between elements and messages cost time. Any number when the budget is spent.
double StretchOf(const Plan& plan, const Links& links, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
