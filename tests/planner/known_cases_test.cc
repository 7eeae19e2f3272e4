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

// One host of rack a holds it all, four of rack a and six of rack b need it; the uplinks are
// narrower than a NIC.
TEST(KnownCasesTest, ANarrowUplinkBindsAndIsCrossedOnce) {
  PlannerCase one{.name = "racks", .request = {}};
  Topology& topology = one.request.topology;
  testing::AddHosts(11, 1, 1, 1e9, 0, topology);
  for (const char* rack : {"a", "b"}) {
    topology.domains.push_back(
        {.name = rack, .egress_bytes_per_second = 5e8, .ingress_bytes_per_second = 5e8});
  }
  for (size_t h = 0; h < 11; ++h) topology.hosts[h].parent = h < 5 ? "a" : "b";
  const Shape shape = {1 << 20};
  const auto replicated = [&](int64_t devices) {
    const std::vector<std::vector<int64_t>> parts(devices, {0});
    return std::make_shared<const Layout>(
        MakeSeparableLayout(shape, {TilePartition(shape[0], 1)}, parts));
  };
  const auto list = [](std::vector<int64_t> ids) {
    return std::make_shared<const DeviceList>(ids);
  };
  one.request.arrays = {{.name = "w",
                         .shape = shape,
                         .element_type = ElementType::kF32,
                         .source = {replicated(1), list({0})},
                         .target = {replicated(10), list({1, 2, 3, 4, 5, 6, 7, 8, 9, 10})}}};
  const Planned planned = PlanFor(one);
  EXPECT_LE(planned.plan.summary().quality, 1.001) << planned.plan.DebugString();
  EXPECT_FALSE(planned.plan.lower_bound_certificate().domains.empty());
  EXPECT_NEAR(planned.plan.summary().bottleneck_seconds, (4 << 20) / 5e8, 1e-6);
  const absl::Status valid = planned.plan.Validate(planned.request);
  EXPECT_TRUE(valid.ok()) << valid;
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
