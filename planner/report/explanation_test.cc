// SPDX-License-Identifier: Apache-2.0
// Explanations of plans whose numbers are known by hand, and of random ones.
#include "planner/report/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/report/flows.h"
#include "planner/report/report_test.h"
#include "planner/report/waits.h"
#include "tests/testing/random_request.h"

namespace remesh::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ExplainTest, TwoHosts) {
  const Explanation explanation = PlanOf(RowsToColumns(8)).explanation();
  EXPECT_THAT(explanation.certificate,
              HasSubstr("must receive 32 B that none of its devices holds"));
  EXPECT_THAT(explanation.bottleneck, HasSubstr("carries 32 B at 1 GB/s, 32 ns; 4 of 4 links"));
  ASSERT_EQ(explanation.domains.size(), 2u);
  for (const DomainTraffic& row : explanation.domains) {
    EXPECT_TRUE(row.binding);
    EXPECT_EQ(row.ingress_bytes, 32);
    EXPECT_EQ(row.egress_bytes, 32);
    EXPECT_DOUBLE_EQ(row.ingress_seconds, 32e-9);
  }
  ASSERT_EQ(explanation.strategies.size(), 4u);
  EXPECT_EQ(explanation.strategies[0].crossing_bytes, 64);
  EXPECT_EQ(explanation.strategies[0].ratio, 1);
  EXPECT_EQ(explanation.strategies[1].bottleneck_bytes, 32);
  // One device gathers the bytes that it lacks of 128, and its host sends on three quarters of
  // them, of which 64 cross.
  EXPECT_GT(explanation.strategies[2].ratio, 1);
  // Half of the array is written and half of it read by each host.
  EXPECT_EQ(explanation.strategies[3].crossing_bytes, 256);
  EXPECT_EQ(explanation.strategies[3].bottleneck_bytes, 128);
  EXPECT_DOUBLE_EQ(explanation.strategies[3].seconds, 64e-9);
}

TEST(ExplainTest, AScheduleThatTakesLongerThanItsBusiestLinkSaysWhatItWaitsFor) {
  const ReportedPlan planned = PlanOf(RowsToColumns(8));
  EXPECT_GT(planned.plan.summary().schedule_price, kExplainedPrice);
  const std::string schedule = planned.explanation().schedule;
  EXPECT_THAT(schedule, HasSubstr("x the busiest link"));
  EXPECT_THAT(schedule, HasSubstr("; windows wait for the hand-over from one to the next: 1 ("));
  EXPECT_THAT(schedule, HasSubstr("; 12 messages, each 2 µs of a NIC and 1 µs of a thread"));
  EXPECT_THAT(schedule, HasSubstr("(assumed for NCCL, not measured)"));
}

TEST(ExplainTest, AScheduleIsExplainedOnlyAboveItsLimit) {
  const ReportedPlan planned = PlanOf(RowsToColumns(8192));
  EXPECT_LE(planned.plan.summary().schedule_price, kExplainedPrice);
  EXPECT_EQ(planned.explanation().schedule, "");
}

TEST(ExplainTest, PostingIsNamedWhereItBinds) {
  ReshardRequest request = RowsToColumns(8);
  for (Host& host : request.topology.hosts) host.message_costs.post_seconds = 1e-3;
  const std::string schedule = PlanOf(request).explanation().schedule;
  EXPECT_THAT(schedule, HasSubstr("windows wait for posting: 1 (8 ms)"));
  EXPECT_THAT(schedule, Not(HasSubstr("assumed")));
}

// The price of a schedule is relative to the busiest NIC, so the bottleneck names a slower fabric
// too.
TEST(ExplainTest, ASlowFabricIsNamed) {
  ReshardRequest request = RowsToColumns(8);
  EXPECT_THAT(PlanOf(request).explanation().bottleneck, Not(HasSubstr("inside hosts")));
  for (Host& host : request.topology.hosts) host.fabric_bytes_per_second = 1e8;
  EXPECT_THAT(PlanOf(request).explanation().bottleneck,
              HasSubstr("; inside hosts, egress of the fabric of a device of host a carries 8 B at "
                        "100 MB/s, 80 ns"));
}

TEST(ExplainTest, ReplicasShareWritingAndAreReadOnceAHost) {
  ReshardRequest request = Hosts({"a", "b"});
  const Shape shape = {8, 8};
  Placement replicated = Tiles(shape, 1, 1);
  Layout layout = MakeSeparableLayout(shape, {TilePartition(8, 1), TilePartition(8, 1)},
                                      std::vector<int64_t>(4, 0));
  replicated.layout = std::make_shared<Layout>(std::move(layout));
  replicated.devices = std::make_shared<DeviceList>(DeviceList{0, 1, 2, 3});
  request.arrays.push_back(
      {.name = "w", .shape = shape, .source = replicated, .target = replicated});
  const ReportedPlan planned = PlanOf(request);
  const Explanation explanation = planned.explanation();
  EXPECT_EQ(explanation.strategies[3].crossing_bytes, 64 + 128);
  EXPECT_EQ(explanation.strategies[3].bottleneck_bytes, 32 + 64);
  EXPECT_TRUE(explanation.domains.empty());
  EXPECT_EQ(explanation.bottleneck, "no byte leaves its host");
  EXPECT_EQ(explanation.strategies[0].ratio, 1);
  EXPECT_TRUE(std::isinf(explanation.strategies[3].ratio));
}

TEST(ExplainTest, ANarrowRackBinds) {
  ReshardRequest request = RowsToColumns(128);
  for (Host& host : request.topology.hosts) host.parent = host.name + "-rack";
  request.topology.domains = {{"a-rack", "", 1e8, 1e8}, {"b-rack", "", 1e9, 1e9}};
  const ReportedPlan planned = PlanOf(request);
  const Explanation explanation = planned.explanation();
  EXPECT_EQ(explanation.domains[0].name, "a-rack");
  EXPECT_EQ(explanation.domains[0].kind, DomainTraffic::Kind::kDomain);
  EXPECT_TRUE(explanation.domains[0].binding);
  EXPECT_THAT(explanation.bottleneck, HasSubstr("gress of domain a-rack carries"));
  EXPECT_THAT(explanation.certificate, HasSubstr("domain a-rack"));
  EXPECT_NEAR(
      std::max(explanation.domains[0].ingress_seconds, explanation.domains[0].egress_seconds),
      planned.plan.summary().bottleneck_seconds, 1e-9 * planned.plan.summary().bottleneck_seconds);
}

// Two racks of two hosts; an uplink carries half of what the NICs of its two hosts could. Of 2000 x
// 2000 bytes each device needs a quarter, half of which lies in the other rack: 2 x 500 kB enter
// each rack at 1 GB/s in 1 ms, while a host's 750 kB take 0.75 ms.
TEST(ExplainTest, ARackNarrowerThanItsHostsBinds) {
  ReshardRequest request;
  for (int64_t h = 0; h < 4; ++h) {
    request.topology.hosts.push_back({.name = absl::StrCat("h", h),
                                      .device_ids = {h},
                                      .nic_bytes_per_second = 1e9,
                                      .nics = 1,
                                      .fabric_bytes_per_second = 1e11,
                                      .parent = h < 2 ? "east" : "west"});
  }
  request.topology.domains = {
      {"pod", "", 1e12, 1e12}, {"east", "pod", 1e9, 1e9}, {"west", "pod", 1e9, 1e9}};
  const Shape shape = {2000, 2000};
  request.arrays.push_back({.name = "w",
                            .shape = shape,
                            .element_type = ElementType::kU8,
                            .source = Tiles(shape, 4, 1),
                            .target = Tiles(shape, 1, 4)});
  const ReportedPlan planned = PlanOf(request);
  EXPECT_DOUBLE_EQ(planned.plan.summary().lower_bound_seconds, 1e-3);
  EXPECT_LE(planned.plan.summary().quality, 1.001);
  const Explanation explanation = planned.explanation();
  EXPECT_THAT(explanation.certificate,
              ::testing::MatchesRegex("domain (east|west) must receive 1 MB that none of its "
                                      "devices holds: at 1 GB/s, 1 ms"));
  ASSERT_EQ(explanation.levels.size(), 2u);
  EXPECT_EQ(explanation.levels[0].count, 2);
  EXPECT_EQ(explanation.levels[0].egress_bytes, 2'000'000);
  EXPECT_TRUE(explanation.levels[0].binding);
  EXPECT_EQ(explanation.levels[1].busiest.kind, DomainTraffic::Kind::kHost);
  EXPECT_EQ(explanation.levels[1].egress_bytes, 4 * 750'000);
  EXPECT_FALSE(explanation.levels[1].binding);
  ASSERT_EQ(explanation.domains.size(), 6u);
  for (const DomainTraffic& row : explanation.domains) {
    const bool rack = row.kind == DomainTraffic::Kind::kDomain;
    EXPECT_EQ(row.binding, rack) << row.name;
    EXPECT_EQ(row.level, rack ? 1 : 0) << row.name;
    EXPECT_NEAR(row.ingress_seconds, rack ? 1e-3 : 0.75e-3, 1e-6) << row.name;
    EXPECT_EQ(row.ingress_bytes_per_second, 1e9) << row.name;
  }
}

TEST(ExplainTest, RefusesRatesThatAreNoRates) {
  const ReportedPlan planned = PlanOf(RowsToColumns(8));
  for (const double rate : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    const auto explanation = Explain(planned.request, planned.plan, planned.binding, {rate});
    EXPECT_EQ(GetErrorInfo(explanation.status()).metadata["field"], "checkpoint_bytes_per_second");
  }
}

TEST(ExplainTest, TheBusiestRowIsThePlansBottleneck) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const ReportedPlan planned = PlanOf(testing::RandomRequest(seed));
    const Explanation explanation = planned.explanation();
    const double expected = planned.plan.summary().bottleneck_seconds;
    double busiest = 0;
    for (const DomainTraffic& row : explanation.domains) {
      busiest = std::max({busiest, row.ingress_seconds, row.egress_seconds});
    }
    // Slices end at whole elements: a link may carry an element of 16 bytes more or less per slice.
    EXPECT_NEAR(busiest, expected, 0.02 * expected + 1e-6);
    const Traffic traffic = planned.traffic();
    int64_t between = 0, crossing = 0;
    for (size_t i = 0; i < traffic.groups.size(); ++i) {
      for (size_t j = 0; j < traffic.groups.size(); ++j) {
        if (i != j) between += traffic.BytesBetween(i, j);
      }
    }
    for (const Traffic::Step& step : traffic.steps) crossing += step.crossing_bytes;
    EXPECT_NEAR(static_cast<double>(between), static_cast<double>(crossing),
                static_cast<double>(traffic.matrix.size() + traffic.steps.size()));
  }
}

// A plan of 383 bytes once kept a thread busy for more than 40 s after its caller had gone.
TEST(ExplainTest, WhatWalksOverAllWindowsEndsWithItsBudget) {
  ReshardRequest request = RowsToColumns(128);
  request.options.window_bytes = 256;
  const ReportedPlan planned = PlanOf(request);
  const auto windows_of = [&](int most) {
    Budget budget([&, looks = 0]() mutable {
      return ++looks <= most ? absl::OkStatus() : absl::CancelledError("the caller has gone");
    });
    int windows = 0;
    ForEachWindow(
        planned.plan, [&](int32_t, absl::Span<const Flow>) { ++windows; }, budget);
    return windows;
  };
  const int all = windows_of(1 << 20);
  EXPECT_GT(all, 100);
  EXPECT_LT(windows_of(1), all / 2);
  Budget spent([] { return absl::CancelledError("the caller has gone"); });
  EXPECT_EQ(Explain(planned.request, planned.plan, planned.binding, {}, spent).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_LT(ChromeTrace(planned.request, planned.plan, planned.binding, {}, spent).size(),
            ChromeTrace(planned.request, planned.plan, planned.binding).size());
}

}  // namespace
}  // namespace remesh::planner
