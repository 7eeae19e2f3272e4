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

// DATA_LOSS (DATA_LOSS) names the first box that is missing when no fallback is declared.
absl::Status CheckMissing(const ReshardRequest& request, const std::vector<MissingBox>& missing);

// Everything that a plan says of itself: bounds with their certificates, bytes by their ways,
// busiest link, price, quality, windows. T0 rises to what `routings.domains` proves of plans that
// enter every domain once, unless this plan undercuts that by entering one again.
Figures MakeFigures(const Atoms& atoms, const Routings& routings,
                    const std::vector<Segment>& segments, const Timeline& timeline,
                    const Network& network, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
