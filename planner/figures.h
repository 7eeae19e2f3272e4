// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "planner/atoms/demand_classes.h"
#include "planner/network/network.h"
#include "planner/routing/domain_routing.h"
#include "planner/routing/routing.h"
#include "planner/schedule/plan_draft.h"
#include "planner/values/request.h"

namespace remesh {

// Everything that a plan says of itself, computed from its draft.

// DATA_LOSS (DATA_LOSS) names the first box that is missing when no fallback is declared.
absl::Status CheckMissing(const ReshardRequest& request, const std::vector<MissingBox>& missing);

// Who should send how much, uplinks aside and with them.
struct Routings {
  Routing hosts;
  DomainRouting domains;  // empty, and its bound 0, where there are no domains
};

// LB and T0 with their certificates; true whatever the moves. Returns the routings that show T0.
Routings SetBounds(const DemandClasses& demand, const Network& network, PlanDraft& draft);

// Peaks of the schedule. RESOURCE_EXHAUSTED (MEMORY_LIMIT) above the request's limit.
absl::Status SetPeaks(const ReshardRequest& request, const Network& network, PlanDraft& draft);
absl::Status MemoryLimitExceeded(int64_t limit, int64_t needed);

// Bytes by their ways, busiest link, price, quality, windows. T0 rises to what `domains` proves of
// plans that enter every domain once, unless this plan undercuts that by entering one again.
// REQUIRES: bounds, schedule and predicted seconds.
void SetFigures(const Network& network, const Bound& domains, PlanDraft& draft);

}  // namespace remesh
