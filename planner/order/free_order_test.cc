// SPDX-License-Identifier: Apache-2.0
#include "planner/order/free_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "planner/canonical/canonical.h"
#include "planner/make_plan.h"
#include "planner/plan/plan.h"

namespace remesh::planner {
namespace {

constexpr double kNic = 1e9;

Topology Hosts(const std::vector<int64_t>& devices_of) {
  Topology topology;
  int64_t next = 0;
  for (size_t h = 0; h < devices_of.size(); ++h) {
    Host host{.name = "h" + std::to_string(h),
              .nic_bytes_per_second = kNic,
              .fabric_bytes_per_second = 100 * kNic};
    for (int64_t i = 0; i < devices_of[h]; ++i) host.device_ids.push_back(next++);
    topology.hosts.push_back(std::move(host));
  }
  return topology;
}

DeviceListPtr List(std::vector<int64_t> ids) {
  return std::make_shared<const DeviceList>(std::move(ids));
}

// Device i of the list holds [begin[i], end[i]).
Placement Intervals(int64_t extent, const std::vector<Interval>& intervals, DeviceListPtr devices) {
  std::vector<std::vector<Box>> boxes;
  for (const Interval& interval : intervals) boxes.push_back({Box{.dims = {interval}}});
  auto layout = MakeBoxLayout({extent}, boxes);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return {std::make_shared<const Layout>(*std::move(layout)), std::move(devices)};
}

struct Summary {
  PlanSummary plan;
  DeviceList order;  // caller's ids, of the first array
};

Summary PlanFreely(ReshardRequest request) {
  request.options.free_target_order = true;
  const auto canonical = Canonicalize(request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  const auto plan = MakePlan(canonical->canonical);
  EXPECT_TRUE(plan.ok()) << plan.status();
  Summary summary{.plan = plan->summary(), .order = {}};
  for (int64_t id : *canonical->canonical.request.arrays[0].target.devices) {
    summary.order.push_back(canonical->binding.device_ids[plan->target_order()[id]]);
  }
  return summary;
}

PlanSummary PlanWith(ReshardRequest request, DeviceList order) {
  for (ArraySpec& array : request.arrays) array.target.devices = List(order);
  const auto canonical = Canonicalize(request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  const auto plan = MakePlan(canonical->canonical);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->summary();
}

// Random intervals over all devices: sources disjoint, targets of any overlap.
ReshardRequest RandomIntervals(std::mt19937_64& random, const std::vector<int64_t>& devices_of) {
  ReshardRequest request{.topology = Hosts(devices_of)};
  const int64_t devices = std::accumulate(devices_of.begin(), devices_of.end(), int64_t{0});
  std::vector<int64_t> all(devices);
  std::iota(all.begin(), all.end(), int64_t{0});
  constexpr int64_t kExtent = 96;
  std::vector<int64_t> cuts = {0, kExtent};
  while (static_cast<int64_t>(cuts.size()) <= devices) {
    cuts.push_back(static_cast<int64_t>(random() % kExtent));
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<Interval> source, target;
  for (int64_t i = 0; i < devices; ++i) {
    source.push_back({cuts[i], cuts[i + 1]});
    const int64_t lo = static_cast<int64_t>(random() % kExtent);
    target.push_back(
        {lo, std::min<int64_t>(kExtent, lo + 1 + static_cast<int64_t>(random() % 30))});
  }
  request.arrays.push_back({.name = "x",
                            .shape = {kExtent},
                            .element_type = ElementType::kF32,
                            .source = Intervals(kExtent, source, List(all)),
                            .target = Intervals(kExtent, target, List(all))});
  return request;
}

struct Verdict {
  int optimal = 0;   // cases in which no permutation has a smaller lower bound
  double worst = 1;  // ratio of the lower bound to the least one
};

Verdict CompareWithAllPermutations(const std::vector<int64_t>& devices_of, int cases) {
  std::mt19937_64 random(5);
  Verdict verdict;
  for (int i = 0; i < cases; ++i) {
    const ReshardRequest request = RandomIntervals(random, devices_of);
    const double chosen = PlanFreely(request).plan.lower_bound_seconds;
    DeviceList order = *request.arrays[0].target.devices;
    double least = chosen;
    do {
      least = std::min(least, PlanWith(request, order).lower_bound_seconds);
    } while (std::next_permutation(order.begin(), order.end()));
    verdict.optimal += chosen <= least;
    verdict.worst = std::max(verdict.worst, chosen / least);
  }
  return verdict;
}

// The problem is NP-hard. For small cases the chosen order must nearly always be optimal.
TEST(FreeOrderTest, HardlyAnyPermutationHasALowerBoundThatIsLess) {
  for (const std::vector<int64_t>& devices_of : std::vector<std::vector<int64_t>>{
           {1, 1, 1, 1, 1}, {2, 2, 1}, {3, 2}, {2, 1, 1, 1}, {2, 2, 2}}) {
    SCOPED_TRACE(::testing::PrintToString(devices_of));
    const Verdict verdict = CompareWithAllPermutations(devices_of, 20);
    EXPECT_GE(verdict.optimal, 19);
    EXPECT_LE(verdict.worst, 1.25);
  }
}

TEST(FreeOrderTest, APermutationOfShardsMovesNothing) {
  ReshardRequest request{.topology = Hosts({2, 3, 1})};
  const std::vector<Interval> thirds = {{0, 10}, {10, 20}, {20, 30}, {30, 40}, {40, 50}, {50, 60}};
  request.arrays.push_back({.name = "x",
                            .shape = {60},
                            .element_type = ElementType::kU8,
                            .source = Intervals(60, thirds, List({0, 1, 2, 3, 4, 5})),
                            .target = Intervals(60, thirds, List({5, 2, 1, 0, 4, 3}))});
  const Summary chosen = PlanFreely(request);
  EXPECT_EQ(chosen.plan.kept_bytes, 60);
  EXPECT_EQ(chosen.order, (DeviceList{0, 1, 2, 3, 4, 5}));
}

TEST(FreeOrderTest, ADeviceThatIsNewTakesWhatNoDeviceHolds) {
  ReshardRequest request{.topology = Hosts({1, 1, 1})};
  // 0 is not a target, 2 is new: 2 must take the place of 0, not that of 1.
  const std::vector<Interval> halves = {{0, 30}, {30, 60}};
  request.arrays.push_back({.name = "x",
                            .shape = {60},
                            .element_type = ElementType::kU8,
                            .source = Intervals(60, halves, List({0, 1})),
                            .target = Intervals(60, halves, List({1, 2}))});
  const Summary chosen = PlanFreely(request);
  EXPECT_EQ(chosen.order, (DeviceList{2, 1}));
  EXPECT_EQ(chosen.plan.crossing_bytes, 30);
}

// Both shards have to enter a new host. The larger one must go to the host with the faster card.
TEST(FreeOrderTest, TheFasterHostTakesWhatMustCross) {
  ReshardRequest request{.topology = Hosts({1, 1, 1, 1})};
  for (int h : {0, 1, 3}) request.topology.hosts[h].nic_bytes_per_second = 10 * kNic;
  const std::vector<Interval> halves = {{0, 30}, {30, 60}};
  request.arrays.push_back({.name = "x",
                            .shape = {60},
                            .element_type = ElementType::kU8,
                            .source = Intervals(60, halves, List({0, 1})),
                            .target = Intervals(60, {{0, 30}, {30, 40}}, List({2, 3}))});
  const Summary chosen = PlanFreely(request);
  EXPECT_EQ(chosen.order, (DeviceList{3, 2}));
}

// Hosts are chosen first: a few bytes kept on a device do not outweigh bytes that enter a host.
TEST(FreeOrderTest, HostsGoBeforeDevices) {
  ReshardRequest request{.topology = Hosts({2, 2})};
  // Host 0 holds [0, 60), host 1 [60, 100). Of the slot [50, 90), device 1 holds 20 and host 0 10
  // in all; host 1 holds 30, though none of its devices more than 15.
  request.arrays.push_back(
      {.name = "x",
       .shape = {100},
       .element_type = ElementType::kU8,
       .source = Intervals(100, {{0, 40}, {40, 70}, {70, 85}, {85, 100}}, List({0, 1, 2, 3})),
       .target = Intervals(100, {{0, 40}, {40, 52}, {52, 100}, {85, 100}}, List({0, 1, 2, 3}))});
  const Summary chosen = PlanFreely(request);
  const int64_t third = chosen.order[2];
  EXPECT_GE(third, 2);
  EXPECT_EQ(chosen.plan.crossing_bytes, 18);
}

// Shards that the request puts on one device stay on one device: all lists change places in the
// same way.
TEST(FreeOrderTest, ArraysOfOtherListsGoAlong) {
  ReshardRequest request{.topology = Hosts({1, 1, 1})};
  const std::vector<Interval> thirds = {{0, 20}, {20, 40}, {40, 60}};
  request.arrays.push_back({.name = "big",
                            .shape = {60},
                            .element_type = ElementType::kF32,
                            .source = Intervals(60, thirds, List({0, 1, 2})),
                            .target = Intervals(60, thirds, List({2, 0, 1}))});
  const std::vector<Interval> halves = {{0, 5}, {5, 10}};
  request.arrays.push_back({.name = "small",
                            .shape = {10},
                            .element_type = ElementType::kU8,
                            .source = Intervals(10, halves, List({0, 1})),
                            .target = Intervals(10, halves, List({1, 2}))});
  request.options.free_target_order = true;
  const auto canonical = Canonicalize(request);
  ASSERT_TRUE(canonical.ok()) << canonical.status();
  const std::vector<int64_t> taker = ChooseTargetOrder(canonical->canonical.request);
  DeviceList bound[2];
  for (size_t i = 0; i < 2; ++i) {
    const int32_t array = canonical->binding.array_indices[i];
    for (int64_t id : *canonical->canonical.request.arrays[i].target.devices) {
      bound[array].push_back(canonical->binding.device_ids[taker[id]]);
    }
  }
  EXPECT_EQ(bound[0], (DeviceList{0, 1, 2}));
  EXPECT_EQ(bound[1], (DeviceList{2, 0}));  // 1 has the third place of "big", 2 the first
}

}  // namespace
}  // namespace remesh::planner
