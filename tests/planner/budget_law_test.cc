// SPDX-License-Identifier: Apache-2.0
// Planning ends wherever its budget is spent, and says why.
#include <gtest/gtest.h>

#include "planner/make_plan.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"
#include "tests/testing/random_request.h"

namespace remesh::planner {
namespace {

using testing::RandomRequest;

// Spent at look number `last`; counts the looks.
Budget SpentAt(int64_t last, int64_t& looks) {
  return Budget(
      [last, &looks] {
        return ++looks >= last ? absl::CancelledError("no caller waits") : absl::OkStatus();
      },
      /*asked_per_look=*/1);
}

absl::StatusOr<Plan> CanonicalizeAndPlan(const ReshardRequest& request, Budget& budget) {
  const auto canonical = Canonicalize(request, budget);
  if (!canonical.ok()) return canonical.status();
  return MakePlan(canonical->canonical, budget);
}

void ExpectPlanningEndsAnywhere(const ReshardRequest& request, int64_t stride) {
  int64_t all = 0;
  Budget enough = SpentAt(int64_t{1} << 40, all);
  const auto whole = CanonicalizeAndPlan(request, enough);
  const auto unlimited = CanonicalizeAndPlan(request, Budget::Unlimited());
  ASSERT_EQ(whole.status(), unlimited.status());
  if (whole.ok()) {
    EXPECT_TRUE(*whole == *unlimited);
  }
  for (int64_t last = 1; last <= all; last += stride) {
    int64_t looks = 0;
    Budget budget = SpentAt(last, looks);
    const auto plan = CanonicalizeAndPlan(request, budget);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kCancelled) << last << " of " << all;
    EXPECT_EQ(looks, last) << "it was asked again";
  }
}

TEST(BudgetLawTest, PlanningEndsAtAnyLook) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    ExpectPlanningEndsAnywhere(RandomRequest(seed), 1 + static_cast<int64_t>(seed) % 7);
  }
}

TEST(BudgetLawTest, WithDonationAndAFreeOrderToo) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    ReshardRequest request = RandomRequest(seed, {.lost_devices = false});
    request.options.donate = seed % 2 == 0;
    request.options.memory_limit_bytes = seed % 4 == 0 ? 1 : 0;
    request.options.free_target_order = true;
    ExpectPlanningEndsAnywhere(request, 31);
  }
}

TEST(BudgetLawTest, EveryStrategy) {
  for (const Strategy strategy : {Strategy::kP2p, Strategy::kGather}) {
    ReshardRequest request = RandomRequest(3);
    request.options.strategy = strategy;
    ExpectPlanningEndsAnywhere(request, 1);
  }
}

}  // namespace
}  // namespace remesh::planner
