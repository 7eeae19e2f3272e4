// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"

namespace remesh::planner {

// OK when the expanded transfers write every element of every target shard exactly once with the
// right source element, senders hold what they send when they send it, and window, memory and
// operation limits hold; with donation of memory that the target shards fit. INTERNAL otherwise.
// O(transfers): for tests.
absl::Status ValidatePlan(const Plan& plan, const CanonicalRequest& request);

}  // namespace remesh::planner
