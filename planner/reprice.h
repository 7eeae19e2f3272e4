// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The most work that Repriced() takes on, in parts of moves to replay.
inline constexpr int64_t kReplayedPartsMax = int64_t{1} << 27;

// How many times as long as with this planner's own paths or windows a plan may take.
inline constexpr double kSlowerMax = 4;

// The moves of `plan`, whose origin may be unknown, as a plan of `request`. ValidatePlan() replays
// the moves; bounds, costs and peaks are computed again, and none of the plan's own figures is
// trusted. INVALID_ARGUMENT (PLAN_INVALID) says why the plan does not answer the request, or
// (PLAN_TOO_SLOW) that it is no plan to answer others with: its busiest link is busy for more than
// kSlowerMax times its bound, or its windows take more than kSlowerMax times those that this
// planner makes for the same moves. RESOURCE_EXHAUSTED (PLAN_TOO_LARGE) when the replay would take
// too long; the budget's status when that is spent. REQUIRES: DecodePlan() made the plan.
absl::StatusOr<Plan> Repriced(const CanonicalRequest& request, const Plan& plan,
                              Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
