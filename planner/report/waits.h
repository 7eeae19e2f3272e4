// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "planner/network/links.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"
#include "planner/values/topology.h"

namespace remesh::planner {

// Above this schedule_price a plan owes an explanation.
inline constexpr double kExplainedPrice = 1.05;

// Why a plan takes longer than its busiest link or fabric, in words: how many of its windows wait
// for what, and what messages cost. Takes the time of ForEachWindow(). Any text when the budget is
// spent. REQUIRES: `links` are of the canonical `topology`.
std::string WaitsInWords(const Plan& plan, const Topology& topology, const Links& links,
                         Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
