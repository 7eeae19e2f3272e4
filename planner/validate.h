// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"

namespace remesh::planner {

// OK when the expanded transfers write every element of every target shard exactly once with the
// right source element, senders hold what they send when they send it, and the limits on windows,
// memory and operations hold. Of memory it checks shards only: that they stay within the plan's
// peaks and the peaks within the limit; with donation it counts target shards only. INTERNAL
// otherwise. O(transfers): for tests.
absl::Status ValidatePlan(const Plan& plan, const CanonicalRequest& request);

}  // namespace remesh::planner
