// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "planner/canonical/canonical.h"
#include "planner/make_plan.h"
#include "planner/plan/plan.h"

namespace remesh::planner {

struct Planned {
  CanonicalRequest request;
  Plan plan;
};

// REQUIRES: a valid request.
inline Planned PlanFor(const ReshardRequest& request) {
  auto canonical = Canonicalize(request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  auto plan = MakePlan(canonical->canonical);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return {std::move(canonical->canonical), *std::move(plan)};
}

inline double MovedShare(const PlanSummary& summary) {
  return 1 - static_cast<double>(summary.kept_bytes) / static_cast<double>(summary.total_bytes);
}

}  // namespace remesh::planner
