// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "planner/plan/plan_rep.h"
#include "planner/values/request.h"

namespace remesh::planner {

// OK when every index and every range of `rep` lies within what it refers to, so that expansion
// ends and reads nothing out of bounds. DATA_LOSS (PLAN_BYTES_CORRUPT) otherwise. REQUIRES:
// `canonical` is valid.
absl::Status CheckRep(const PlanRep& rep, const ReshardRequest& canonical);

}  // namespace remesh::planner
