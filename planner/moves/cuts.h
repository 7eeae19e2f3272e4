// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/moves/moves.h"
#include "planner/routing/trees.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The segments of all tapes, in their order, and the edges that each takes; null where it stays
// within the hosts that hold it.
struct RoutedSegments {
  std::vector<Segment> segments;
  std::vector<const RouteEdges*> edges;
};

// Cuts every tape of a class in the proportions of the class's route, so that each host uses all of
// its devices for it. Cuts fall between elements; the rounding error is carried from tape to tape.
// Incomplete once the budget is spent.
RoutedSegments CutTapes(const Atoms& atoms, const DemandClasses& demand,
                        const std::vector<Route>& routes, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
