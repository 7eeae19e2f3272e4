// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/routing/trees.h"
#include "planner/schedule/plan_draft.h"

namespace remesh {

// A segment and the edges it takes; null where it stays within the hosts that hold it.
struct RoutedSegment {
  int32_t segment = 0;  // into PlanDraft::segments
  const std::vector<RouteEdge>* edges = nullptr;
};

// Appends the segments of all subs to draft.segments. Every sub of a class is cut in the
// proportions of the class's route, so that each host has all of its devices at work on it; cuts
// are whole elements, and the rounding error is carried from sub to sub.
std::vector<RoutedSegment> CutSubs(const DemandClasses& demand, const std::vector<Route>& routes,
                                   PlanDraft& draft);

}  // namespace remesh
