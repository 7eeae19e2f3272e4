// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan/plan.h"

namespace remesh::planner {

// For each host (canonical index) the others with which it exchanges data: those to which it sends,
// passes on, or from which it receives in any window. Rising and without itself; symmetric. Takes
// time in proportion to the plan's moves, and memory in proportion to the result.
std::vector<std::vector<int32_t>> HostExchanges(const Plan& plan);

}  // namespace remesh::planner
