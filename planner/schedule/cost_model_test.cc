// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/cost_model.h"

#include <gtest/gtest.h>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::AddChain;
using testing::MakeTestNetwork;

// A second of work for a NIC of a byte per second.
constexpr int64_t kSecond = 8;

// With as many parts at most as `schedule` has.
ScheduleCost CostOf(const Moves& moves, const Schedule& schedule, const Links& links,
                    Budget& budget = Budget::Unlimited()) {
  return ScheduleCost(moves.moves, CollectPairs(moves.moves), moves.segments, schedule,
                      schedule.parts, links, budget);
}

TEST(CostModelTest, TheBusiestDirectionOfANicBinds) {
  Moves moves;
  AddChain(3 * kSecond, {{0, 1}}, moves);
  AddChain(2 * kSecond, {{0, 2}}, moves);
  AddChain(4 * kSecond, {{1, 0}}, moves);
  const Network network = MakeTestNetwork(3);
  const Cost cost = Estimate(moves.moves, Links(network));
  EXPECT_DOUBLE_EQ(cost.bottleneck_seconds, 5);
  EXPECT_EQ(cost.bottleneck_bytes, 5);
  EXPECT_EQ(cost.bottleneck, "egress of a NIC of host 0");
}

TEST(CostModelTest, MovesInsideAHostUseFabricOnly) {
  Moves moves;
  AddChain(500 * kSecond, {{0, 1}}, moves);
  AddChain(9000 * kSecond, {{1, 1}}, moves);  // in place
  const Network network = MakeTestNetwork(1, 2, 1, 1, 1000);
  const Cost cost = Estimate(moves.moves, Links(network));
  EXPECT_EQ(cost.bottleneck_seconds, 0);
  EXPECT_DOUBLE_EQ(cost.fabric_seconds, 0.5);
}

TEST(CostModelTest, UplinksAreUsedBetweenDomainsOnly) {
  Network network = MakeTestNetwork(3, 1, 1, 10);
  network.domains = {{.parent = -1, .egress = 1, .ingress = 2}};
  network.hosts[1].parent = network.hosts[2].parent = 0;
  Moves moves;
  AddChain(10 * kSecond, {{1, 2}}, moves);
  EXPECT_DOUBLE_EQ(Estimate(moves.moves, Links(network)).bottleneck_seconds, 1);
  AddChain(10 * kSecond, {{0, 1}}, moves);
  EXPECT_DOUBLE_EQ(Estimate(moves.moves, Links(network)).bottleneck_seconds, 5);
}

TEST(CostModelTest, RelaysTakePartsAndHopsLessOne) {
  const Network network = MakeTestNetwork(3);
  Moves moves;
  AddChain(6 * kSecond, {{0, 1}, {1, 2}}, moves);
  const Links links(network);
  const ScheduleCost cost = CostOf(moves, {.parts = 6, .hops = 2}, links);
  EXPECT_DOUBLE_EQ(cost.Predict(1).seconds, 12);
  EXPECT_DOUBLE_EQ(cost.Predict(2).seconds, 9);
  EXPECT_DOUBLE_EQ(cost.Predict(6).seconds, 7);
}

// A second a message on a NIC, two on a device's fabric, a quarter on a host's threads.
Network CostlyNetwork(int32_t hosts, int32_t devices) {
  Network network = MakeTestNetwork(hosts, devices, devices, 1, 1);
  for (Network::HostNode& host : network.hosts) {
    host.nic_message_seconds = 1;
    host.fabric_message_seconds = 2;
    host.operation_seconds = 0.25;
  }
  return network;
}

TEST(CostModelTest, AMessageCostsItsNicsInEveryWindow) {
  const Network network = CostlyNetwork(3, 1);
  const Links links(network);
  Moves moves;
  AddChain(6 * kSecond, {{0, 1}}, moves);
  AddChain(2 * kSecond, {{0, 2}}, moves);
  const ScheduleCost cost = CostOf(moves, {.parts = 4}, links);
  EXPECT_DOUBLE_EQ(cost.Predict(1).seconds, 8 + 2);
  EXPECT_DOUBLE_EQ(cost.Predict(4).seconds, 4 * (2 + 2));
  EXPECT_DOUBLE_EQ(cost.Predict(4).schedule_seconds, 8);
}

TEST(CostModelTest, ACopyInsideAHostCostsItsFabricAlone) {
  const Network network = CostlyNetwork(1, 3);
  const Links links(network);
  Moves moves;
  AddChain(6 * kSecond, {{0, 1}}, moves);
  AddChain(2 * kSecond, {{2, 1}}, moves);
  AddChain(9 * kSecond, {{2, 2}}, moves);  // in place
  EXPECT_DOUBLE_EQ(CostOf(moves, {}, links).Predict(1).seconds, 8 + 2 * 2);
}

// Where there is one part at most, only pairs are looked at.
TEST(CostModelTest, OneWindowCostsTheSameWhereMorePartsCouldBe) {
  const Network network = CostlyNetwork(3, 2);
  const Links links(network);
  Moves moves;
  AddChain(6 * kSecond, {{0, 2}}, moves);
  AddChain(2 * kSecond, {{0, 2}}, moves);
  AddChain(3 * kSecond, {{4, 0}}, moves);
  AddChain(5 * kSecond, {{4, 5}}, moves);  // inside a host
  AddChain(9 * kSecond, {{3, 3}}, moves);  // in place
  const Prediction one = CostOf(moves, {}, links).Predict(1);
  const Prediction of_more = CostOf(moves, {.parts = 4}, links).Predict(1);
  EXPECT_DOUBLE_EQ(one.seconds, of_more.seconds);
  EXPECT_DOUBLE_EQ(one.schedule_seconds, of_more.schedule_seconds);
  EXPECT_GT(one.seconds, one.schedule_seconds);
}

TEST(CostModelTest, AHostPostsTheOperationsOfAllItsDevices) {
  const Network network = CostlyNetwork(2, 9);
  const Links links(network);
  Moves moves;
  for (int32_t i = 0; i < 9; ++i) AddChain(kSecond, {{i, 9 + i}}, moves);
  EXPECT_DOUBLE_EQ(CostOf(moves, {}, links).Predict(1).seconds, 9 * 0.25);
}

// Segments of a pair on both hops, and one that uses a quarter of the turns.
TEST(CostModelTest, APairHasOneMessageInTheWindowsThatItUses) {
  const Network network = CostlyNetwork(3, 1);
  const Links links(network);
  Moves moves;
  AddChain(4 * kSecond, {{0, 1}}, moves);
  AddChain(4 * kSecond, {{2, 0}, {0, 1}}, moves);
  const Schedule schedule{.parts = 4, .hops = 2, .min_part_bits = kSecond};
  // Windows: the first hops, three times both, the last hop.
  EXPECT_DOUBLE_EQ(CostOf(moves, schedule, links).Predict(4).seconds, 2 + 3 * 3 + 2);
  moves = {};
  AddChain(kSecond, {{0, 1}}, moves);
  EXPECT_DOUBLE_EQ(CostOf(moves, {.parts = 4, .min_part_bits = kSecond}, links).Predict(4).seconds,
                   4 * (0.25 + 0.25));
}

// With fewer parts than hops no window carries them all.
TEST(CostModelTest, MessagesOfHopsThatShareNoWindowCountEach) {
  const Network network = CostlyNetwork(4, 1);
  const Links links(network);
  Moves moves;
  AddChain(kSecond, {{0, 1}, {1, 2}, {2, 3}}, moves);
  EXPECT_DOUBLE_EQ(CostOf(moves, {.hops = 3}, links).Predict(1).seconds, 3 * 2);
}

// Regression: a forged schedule of an imported plan, of P parts and 2 P hops, was priced in P^2
// steps, whoever waited.
TEST(CostModelTest, ThePriceOfManyHopsEndsWithItsBudget) {
  const Network network = MakeTestNetwork(3);
  Moves moves;
  AddChain(6 * kSecond, {{0, 1}, {1, 2}}, moves);
  const Links links(network);
  const auto looks_of = [&](int most) {
    int looks = 0;
    Budget budget([&] {
      return ++looks <= most ? absl::OkStatus() : absl::CancelledError("the caller has gone");
    });
    CostOf(moves, {.parts = 1000, .hops = 2000}, links, budget).Predict(1000);
    return looks;
  };
  const int all = looks_of(1 << 20);
  EXPECT_GT(all, 10'000);
  for (const int most : {5, 50, all / 2, all - 1}) EXPECT_EQ(looks_of(most), most + 1);
}

TEST(CostModelTest, ShortWindowsWaitForTheHandOver) {
  EXPECT_DOUBLE_EQ(WindowSeconds(1), 1);
  EXPECT_DOUBLE_EQ(WindowSeconds(kHandOverSeconds), kHandOverSeconds);
  EXPECT_DOUBLE_EQ(WindowSeconds(0), kHandOverSeconds / 2);
}

}  // namespace
}  // namespace remesh::planner
