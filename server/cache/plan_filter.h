// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::server {

// INVALID_ARGUMENT, naming the field ("hits.max"), for bounds that contradict each other, negative
// counts, and names that no state can have.
absl::Status ValidateFilter(const v1::PlanFilter& filter);

// Whether `plan`, in view BASIC at least, passes the filter. REQUIRES: a valid filter.
bool Matches(const v1::PlanFilter& filter, const v1::Plan& plan);

}  // namespace remesh::server
