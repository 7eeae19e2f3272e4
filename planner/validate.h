// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// OK when the expanded transfers write every element of every target shard exactly once with the
// right source element, senders hold what they send when they send it, and the limits on windows,
// memory and operations hold. Of memory it checks shards only: that they stay within the plan's
// peaks and the peaks within the limit; with donation it counts target shards only. INTERNAL
// otherwise; the budget's status when that is spent. Costs at worst the square of the transfers that
// bring one device parts of one array.
absl::Status ValidatePlan(const Plan& plan, const CanonicalRequest& request,
                          Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
