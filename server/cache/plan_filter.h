// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::server {

// INVALID_ARGUMENT, with the field named ("hits.max"), for bounds that contradict each other,
// negative counts, and names that no state has.
absl::Status ValidateFilter(const v1::PlanFilter& filter);

// Whether `plan`, in view BASIC at least, is one that the filter wants. REQUIRES: a valid filter.
bool Matches(const v1::PlanFilter& filter, const v1::Plan& plan);

}  // namespace remesh::server
