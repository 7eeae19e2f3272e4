// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"

namespace remesh::planner {

// Most work that Repriced() takes on: parts of moves to replay.
inline constexpr int64_t kReplayedPartsMax = int64_t{1} << 27;

// The moves of `plan`, from wherever it came, as a plan of `request`: replayed by ValidatePlan(),
// with bounds, costs and peaks computed anew, none believed. INVALID_ARGUMENT (PLAN_INVALID) says
// why the plan does not answer the request; RESOURCE_EXHAUSTED (PLAN_TOO_LARGE) when that would
// take too long to find out. REQUIRES: DecodePlan() made the plan.
absl::StatusOr<Plan> Repriced(const CanonicalRequest& request, const Plan& plan);

}  // namespace remesh::planner
