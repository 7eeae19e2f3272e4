// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "planner/atoms/atoms.h"
#include "planner/network/network.h"
#include "planner/routing/make_routings.h"
#include "planner/schedule/timeline.h"
#include "planner/values/plan_summary.h"
#include "planner/values/request.h"

namespace remesh::planner {

// DATA_LOSS (reason DATA_LOSS) that names the first missing box, when no fallback is declared.
absl::Status CheckMissing(const ReshardRequest& request, const std::vector<MissingBox>& missing);

// The figures of a plan: bounds with their certificates, bytes by kind of path, busiest link,
// price, quality, windows. T0 rises to the bound that `routings.domains` proves for plans that
// enter every domain once, unless this plan undercuts that bound by entering a domain again.
Figures MakeFigures(const Atoms& atoms, const Routings& routings,
                    const std::vector<Segment>& segments, const Timeline& timeline,
                    const Network& network, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
