// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"

namespace remesh::server {

// A plan in canonical ids, with the request that it answers. Immutable.
struct CachedPlan {
  planner::CanonicalRequest request;
  planner::Plan plan;
  double compute_seconds = 0;
  std::string digest = "";  // planner::DigestOfPlanBytes()
};

}  // namespace remesh::server
