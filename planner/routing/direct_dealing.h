// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/routing/transportation.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The answer of SolveTransportation() to the problem of RouteClasses(), root and copies of each
// class added up, where it takes no search: where the holders of every class have room for equal
// shares of it, if even[a], and else the first one for all. There may be millions of classes, for
// which a search takes ten times the time and memory. nullopt where a host has too little of
// `room`, or once the budget is spent.
std::optional<std::vector<Served>> DealDirectly(const DemandClasses& demand,
                                                const std::vector<bool>& even,
                                                std::vector<int64_t> room,
                                                Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
