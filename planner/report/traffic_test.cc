// SPDX-License-Identifier: Apache-2.0
// Flows and traffic: cases known by hand, and random plans against their transfers.
#include "planner/report/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <tuple>

#include "planner/network/links.h"
#include "planner/report/flows.h"
#include "planner/report/names.h"
#include "planner/report/report_test.h"
#include "planner/schedule/cost_model.h"
#include "tests/testing/random_request.h"

namespace remesh::planner {
namespace {

using ::testing::ElementsAre;

// Bits by window and pair of devices, summed over the boxes that devices send each other.
using BitsOfPairs = std::map<std::tuple<int32_t, int32_t, int32_t>, int64_t>;

BitsOfPairs BitsOfTransfers(const ReportedPlan& planned) {
  BitsOfPairs bits;
  planned.plan.ForEachTransfer([&](const Transfer& t) {
    if (t.from_device == t.to_device) return;
    const ElementType type = planned.request.request.arrays[t.array].element_type;
    bits[{t.window, t.from_device, t.to_device}] += t.box.element_count() * BitWidth(type);
  });
  return bits;
}

void ExpectFlowsOfTransfers(const ReportedPlan& planned) {
  BitsOfPairs found, merged;
  int32_t last = -1;
  planned.plan.ForEachFlow([&](const Flow& f) {
    EXPECT_GE(f.window, last);
    EXPECT_NE(f.from_device, f.to_device);
    EXPECT_GT(f.bits, 0);
    last = f.window;
    found[{f.window, f.from_device, f.to_device}] += f.bits;
  });
  EXPECT_EQ(found, BitsOfTransfers(planned));
  ForEachWindow(planned.plan, [&](int32_t window, absl::Span<const Flow> flows) {
    for (const Flow& f : flows) {
      const bool first = merged.insert({{window, f.from_device, f.to_device}, f.bits}).second;
      EXPECT_TRUE(first) << "a pair of devices comes once a window";
    }
  });
  EXPECT_EQ(merged, found);
}

TEST(FlowsTest, AreTheBitsOfTheTransfers) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    ExpectFlowsOfTransfers(PlanOf(testing::RandomRequest(seed)));
  }
}

// Large enough for cuts to move to whole rows, in many windows.
TEST(FlowsTest, FollowTransfersToWholeRows) {
  ReshardRequest request = Hosts({"a", "b", "c"});
  request.options.window_bytes = 1 << 20;
  for (const int64_t n : {3000, 4096}) {
    const Shape shape = {n, n};
    request.arrays.push_back({.name = n == 3000 ? "v" : "w",
                              .shape = shape,
                              .element_type = ElementType::kBf16,
                              .source = Tiles(shape, 4, 1),
                              .target = Tiles(shape, 2, 3)});
  }
  const ReportedPlan planned = PlanOf(request);
  EXPECT_GT(planned.plan.rep().schedule.slack_bits, 16);
  EXPECT_GT(planned.plan.summary().windows, 4);
  ExpectFlowsOfTransfers(planned);
}

// Sums over pairs of hosts are the same in every representation of a plan.
TEST(TrafficTest, TheMatrixHoldsWhatHostsSendEachOther) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const ReportedPlan planned = PlanOf(testing::RandomRequest(seed));
    const Network network = MakeNetwork(planned.request.request);
    const std::vector<int32_t> order = HostsByRack(network, planned.binding);
    std::vector<size_t> row_of(order.size());
    for (size_t i = 0; i < order.size(); ++i) row_of[order[i]] = i;
    const std::vector<int32_t>& host_of = planned.plan.rep().host_of;
    std::vector<int64_t> bits(order.size() * order.size(), 0), inside(order.size(), 0);
    for (const auto& [key, sent] : BitsOfTransfers(planned)) {
      const auto& [window, from_device, to_device] = key;
      const size_t from = row_of[host_of[from_device]], to = row_of[host_of[to_device]];
      (from == to ? inside[from] : bits[from * order.size() + to]) += sent;
    }
    const Traffic traffic = planned.traffic({.groups_max = 1 << 20});
    ASSERT_EQ(traffic.matrix.size(), bits.size());
    for (size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(traffic.matrix[i], (bits[i] + 7) / 8);
    for (size_t i = 0; i < inside.size(); ++i) {
      EXPECT_EQ(traffic.groups[i].bytes_inside, (inside[i] + 7) / 8);
    }
  }
}

TEST(TrafficTest, TwoHostsExchangeHalfOfWhatTheyNeed) {
  const ReportedPlan planned = PlanOf(RowsToColumns(8));
  const Traffic traffic = planned.traffic();
  ASSERT_EQ(traffic.groups.size(), 2u);
  EXPECT_EQ(traffic.groups[0], (Traffic::Group{"a", "a", 1, 16}));
  EXPECT_THAT(traffic.matrix, ElementsAre(0, 32, 32, 0));
  ASSERT_EQ(traffic.kinds.size(), 1u);
  EXPECT_THAT(traffic.flows, ElementsAre(64));
  ASSERT_EQ(traffic.steps.size(), 1u);
  EXPECT_EQ(traffic.steps[0].crossing_bytes, 64);
  EXPECT_EQ(traffic.steps[0].bytes_inside, 32);
  EXPECT_THAT(traffic.steps[0].in, ElementsAre(Traffic::Busy{32e-9, 32e-9}));
  EXPECT_DOUBLE_EQ(planned.plan.summary().schedule_seconds, WindowSeconds(32e-9));
  EXPECT_DOUBLE_EQ(traffic.steps[0].seconds, planned.plan.summary().predicted_seconds);
}

// One host sends to two: the sender's NICs are busy all the time, each receiver's for half of it.
TEST(TrafficTest, HostsThatAreAlikeAreOneKind) {
  ReshardRequest request = Hosts({"a", "b", "c"});
  const Shape shape = {1 << 13, 1 << 13};
  request.arrays.push_back({.name = "w",
                            .shape = shape,
                            .source = Tiles(shape, 2, 1),
                            .target = Tiles(shape, 4, 1, /*first_device=*/2)});
  const Traffic traffic = PlanOf(request).traffic();
  ASSERT_EQ(traffic.kinds.size(), 2u);
  EXPECT_THAT(traffic.kinds[0].names, ElementsAre("a"));
  EXPECT_THAT(traffic.kinds[1].names, ElementsAre("b", "c"));
  EXPECT_THAT(traffic.flows, ElementsAre(0, 1 << 26, 0, 0));
  double out = 0, in = 0;
  for (const Traffic::Step& step : traffic.steps) {
    out += step.out[0].mean_seconds;
    in += step.in[1].mean_seconds;
    EXPECT_LE(step.out[0].mean_seconds, step.out[0].most_seconds * (1 + 1e-9));
    EXPECT_LE(step.in[1].mean_seconds, step.in[1].most_seconds * (1 + 1e-9));
  }
  EXPECT_NEAR(out, (1 << 26) / 1e9, 1e-9);
  EXPECT_NEAR(in, out / 2, 1e-9);
}

TEST(TrafficTest, HostsStandInTheOrderOfTheirNamesAndInGroups) {
  ReshardRequest request = Hosts({"n10", "n9", "n1", "n2", "n11"});
  const Shape shape = {40, 40};
  request.arrays.push_back(
      {.name = "w", .shape = shape, .source = Tiles(shape, 10, 1), .target = Tiles(shape, 1, 10)});
  const ReportedPlan planned = PlanOf(request);
  const Traffic traffic = planned.traffic({.groups_max = 3});
  ASSERT_EQ(traffic.groups.size(), 3u);
  // Each host needs 40 x 8 bytes, of which it has a fifth; half of that fifth stays on its device.
  EXPECT_THAT(traffic.groups, ElementsAre(Traffic::Group{"n1", "n2", 2, 2 * 32},
                                          Traffic::Group{"n9", "n10", 2, 2 * 32},
                                          Traffic::Group{"n11", "n11", 1, 32}));
  EXPECT_EQ(std::accumulate(traffic.matrix.begin(), traffic.matrix.end(), int64_t{0}),
            planned.plan.summary().crossing_bytes);
}

// Racks r2 (a, c) and r10 (b, d): hosts stand rack by rack, and no group is of two racks.
TEST(TrafficTest, HostsStandRackByRackAndRacksHaveSums) {
  ReshardRequest request = Hosts({"a", "b", "c", "d"});
  for (const char* rack : {"r10", "r2"}) {
    request.topology.domains.push_back(
        {.name = rack, .egress_bytes_per_second = 2e9, .ingress_bytes_per_second = 2e9});
  }
  for (size_t i = 0; i < 4; ++i) request.topology.hosts[i].parent = i % 2 == 0 ? "r2" : "r10";
  const Shape shape = {64, 64};
  request.arrays.push_back(
      {.name = "w", .shape = shape, .source = Tiles(shape, 8, 1), .target = Tiles(shape, 1, 8)});
  const ReportedPlan planned = PlanOf(request);
  const Traffic traffic = planned.traffic({.groups_max = 3});
  EXPECT_THAT(traffic.racks, ElementsAre("r2", "r10"));
  ASSERT_EQ(traffic.groups.size(), 2u);
  EXPECT_EQ(traffic.groups[0].first + traffic.groups[0].last, "ac");
  EXPECT_EQ(traffic.groups[1].first + traffic.groups[1].last, "bd");
  // Each of the 8 devices sends each other one 64 bytes: of a rack's 4 devices to the 2 of its
  // other host, and to the 4 of the other rack.
  using Flow = Traffic::RackFlow;
  EXPECT_THAT(traffic.rack_flows,
              ElementsAre(Flow{0, 1, 1024}, Flow{1, 0, 1024}, Flow{0, 0, 512}, Flow{1, 1, 512}));
  EXPECT_THAT(planned.traffic({.groups_max = 1}).groups,
              ElementsAre(::testing::Field(&Traffic::Group::hosts, 4)));
}

TEST(TrafficTest, StepsTakeWindowsTogetherAndLastAsLongAsPredicted) {
  ReshardRequest request = RowsToColumns(1024);
  request.options.window_bytes = 16 << 10;
  const ReportedPlan planned = PlanOf(request);
  const Traffic fine = planned.traffic({.steps_max = 1 << 20});
  const Traffic coarse = planned.traffic({.steps_max = 7});
  ASSERT_GT(fine.steps.size(), 7u);
  EXPECT_LE(coarse.steps.size(), 7u);
  EXPECT_EQ(fine.matrix, coarse.matrix);
  for (const Traffic* traffic : {&fine, &coarse}) {
    const Traffic::Step& last = traffic->steps.back();
    EXPECT_NEAR(last.start + last.seconds, planned.plan.summary().predicted_seconds,
                1e-9 * planned.plan.summary().predicted_seconds);
    EXPECT_EQ(last.first_window + last.windows, planned.plan.summary().windows);
  }
}

}  // namespace
}  // namespace remesh::planner
