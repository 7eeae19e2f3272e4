// SPDX-License-Identifier: Apache-2.0
// The cases that planners are compared by: plans are right, and as good as the notes say they can
// be.
#include <gtest/gtest.h>

#include "planner/plan.h"
#include "tests/benchmark/planner_cases.h"

namespace remesh {
namespace {

using testing::Llama405bCase;
using testing::PlannerCase;

struct Planned {
  CanonicalRequest request;
  Plan plan;
};

Planned PlanFor(const PlannerCase& one) {
  auto canonical = Canonicalize(one.request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  auto plan = MakePlan(canonical->canonical);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return {std::move(canonical->canonical), *std::move(plan)};
}

void ExpectOptimal(const PlanSummary& summary) {
  EXPECT_LE(summary.quality, 1.001);
  EXPECT_LE(summary.predicted_seconds, 1.05 * summary.bottleneck_seconds);
}

TEST(KnownCasesTest, AlpaAndItsUnevenCousins) {
  std::vector<PlannerCase> cases = testing::AlpaCases();
  for (PlannerCase& one : testing::UnevenCases()) cases.push_back(std::move(one));
  cases.push_back(testing::AllToAllCase());
  for (const PlannerCase& one : cases) {
    SCOPED_TRACE(one.name);
    const Planned planned = PlanFor(one);
    ExpectOptimal(planned.plan.summary());
    const absl::Status valid = planned.plan.Validate(planned.request);
    EXPECT_TRUE(valid.ok()) << valid;
  }
}

TEST(KnownCasesTest, Llama405bGrows) {
  const Planned planned = PlanFor(Llama405bCase({8, 16, 1}, {8, 2, 32}, false));
  ExpectOptimal(planned.plan.summary());
  EXPECT_LE(planned.plan.summary().bottleneck_bytes, 1.001 * 50.74e9);
}

TEST(KnownCasesTest, Llama405bShrinks) {
  ExpectOptimal(PlanFor(Llama405bCase({8, 16, 8}, {8, 2, 32}, true)).plan.summary());
}

TEST(KnownCasesTest, QwenEntersEachNodeOnce) {
  const Planned planned = PlanFor(testing::Qwen32bCase());
  ExpectOptimal(planned.plan.summary());
  EXPECT_LE(planned.plan.summary().bottleneck_bytes, 1.001 * 8.1905e9);
}

TEST(KnownCasesTest, AFreeOrderMovesAQuarterOfFlatShards) {
  PlannerCase one = testing::FlatCase(1024, 1016, false);
  const PlanSummary given = PlanFor(one).plan.summary();
  one.request.options.free_target_order = true;
  const PlanSummary freed = PlanFor(one).plan.summary();
  const auto moved = [](const PlanSummary& s) {
    return 1 - static_cast<double>(s.bytes_kept) / static_cast<double>(s.bytes_total);
  };
  EXPECT_NEAR(moved(given), 0.938, 0.001);
  EXPECT_NEAR(moved(freed), 0.260, 0.001);
}

TEST(KnownCasesTest, DonationKeepsThePeakNearTheLargerSide) {
  PlannerCase one = Llama405bCase({8, 16, 2}, {8, 8, 4}, true);
  const int64_t both = PlanFor(one).plan.summary().peak_bytes_max;
  one.request.options.donate = true;
  const int64_t donated = PlanFor(one).plan.summary().peak_bytes_max;
  // The target is twice the source, so that the larger side is two thirds of both.
  EXPECT_LE(static_cast<double>(donated), 1.10 * static_cast<double>(both) * 2 / 3);
}

TEST(KnownCasesTest, APlanDependsOnTheMeshNotOnTheModel) {
  const int64_t bytes = PlanFor(Llama405bCase({8, 16, 8}, {8, 2, 32}, true)).plan.memory_bytes();
  EXPECT_LE(bytes, int64_t{2} << 20);
}

}  // namespace
}  // namespace remesh
