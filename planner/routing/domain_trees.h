// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "planner/routing/domain_routing.h"
#include "planner/routing/trees.h"

namespace remesh::planner {

// Trees in which every host sends the amounts of `routing`, one route for each class. Each crossing
// has its own DegreeWheel, which says who sends how many copies where. At every point of a class
// the wheels give one tree of children for each crossing. An edge between two children runs from
// the host that the wheel names to the gate host of the other child: the host of that child's child
// with most to send on, and so on inside it. A class has at most one segment more than all its
// crossings have fractions.
std::vector<Route> MakeDomainTrees(const DemandClasses& demand, const DomainRouting& routing,
                                   Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
