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
  const ScheduleCost cost(moves.moves, 1, 2, links);
  EXPECT_DOUBLE_EQ(cost.Seconds(1), 12);
  EXPECT_DOUBLE_EQ(cost.Seconds(2), 9);
  EXPECT_DOUBLE_EQ(cost.Seconds(6), 7);
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
    ScheduleCost(moves.moves, 1, 2000, links, budget).Seconds(1000);
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
