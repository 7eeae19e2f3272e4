// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/values/request.h"

namespace remesh::testing {

// A canonical request with its hosts in another order, drawn at random, and its devices numbered
// in that order. It describes the same cluster, but is not canonical any more: for MakePlan()
// alone, to see whether a plan depends on the numbering.
planner::ReshardRequest WithHostsInRandomOrder(planner::ReshardRequest canonical, uint64_t seed);

}  // namespace remesh::testing
