// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "planner/routing/domain_routing.h"
#include "planner/routing/trees.h"

namespace remesh::planner {

// Trees in which every host sends what `routing` says, one route for each class. Each crossing has
// its own wheel of who sends how many copies where; at every point of a class the wheels give a
// tree of children for each crossing, and an edge between two children runs from the host that the
// wheel names to the host at the gate: that of the child with most to send on, and so on inside it.
// As many segments as all crossings of the class have fractions, and one.
std::vector<Route> MakeDomainTrees(const DemandClasses& demand, const DomainRouting& routing,
                                   Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
