// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "planner/plan/plan.h"
#include "planner/values/request.h"

namespace remesh::testing {

// OK when `certificate` proves that no plan for `request` (in canonical ids) takes less than
// `seconds`, by counting element for element what its members must receive or send. Shares no code
// with the planner but its values. For arrays of some thousand elements.
absl::Status CheckCertificate(const planner::ReshardRequest& request,
                              const planner::Certificate& certificate, double seconds);

}  // namespace remesh::testing
