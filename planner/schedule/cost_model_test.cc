// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/cost_model.h"

#include <gtest/gtest.h>

#include "planner/routing/test_network.h"

namespace remesh {
namespace {

using testing::AddChain;
using testing::MakeTestNetwork;

// A second of work for a NIC of a byte per second.
constexpr int64_t kSecond = 8;

TEST(CostModelTest, TheBusiestDirectionOfANicBinds) {
  PlanDraft draft;
  AddChain(3 * kSecond, {{0, 1}}, draft);
  AddChain(2 * kSecond, {{0, 2}}, draft);
  AddChain(4 * kSecond, {{1, 0}}, draft);
  const Cost cost = Estimate(draft, MakeTestNetwork(3));
  EXPECT_DOUBLE_EQ(cost.bottleneck_seconds, 5);
  EXPECT_EQ(cost.bottleneck_bytes, 5);
  EXPECT_EQ(cost.bottleneck, "egress of a NIC of host 0");
}

TEST(CostModelTest, MovesInsideAHostUseFabricOnly) {
  PlanDraft draft;
  AddChain(500 * kSecond, {{0, 1}}, draft);
  AddChain(9000 * kSecond, {{1, 1}}, draft);  // in place
  const Cost cost = Estimate(draft, MakeTestNetwork(1, 2, 1, 1, 1000));
  EXPECT_EQ(cost.bottleneck_seconds, 0);
  EXPECT_DOUBLE_EQ(cost.fabric_seconds, 0.5);
}

TEST(CostModelTest, UplinksAreUsedBetweenDomainsOnly) {
  Network network = MakeTestNetwork(3, 1, 1, 10);
  network.domains = {{.parent = -1, .egress = 1, .ingress = 2}};
  network.hosts[1].parent = network.hosts[2].parent = 0;
  PlanDraft draft;
  AddChain(10 * kSecond, {{1, 2}}, draft);
  EXPECT_DOUBLE_EQ(Estimate(draft, network).bottleneck_seconds, 1);
  AddChain(10 * kSecond, {{0, 1}}, draft);
  EXPECT_DOUBLE_EQ(Estimate(draft, network).bottleneck_seconds, 5);
}

TEST(CostModelTest, RelaysTakeSlicesAndStagesLessOne) {
  const Network network = MakeTestNetwork(3);
  PlanDraft draft;
  AddChain(6 * kSecond, {{0, 1}, {1, 2}}, draft);
  draft.schedule.stages = 2;
  const ScheduleCost cost(draft, network, 1);
  EXPECT_DOUBLE_EQ(cost.Seconds(1), 12);
  EXPECT_DOUBLE_EQ(cost.Seconds(2), 9);
  EXPECT_DOUBLE_EQ(cost.Seconds(6), 7);
}

TEST(CostModelTest, ShortWindowsWaitForTheHandOver) {
  EXPECT_DOUBLE_EQ(WindowSeconds(1), 1);
  EXPECT_DOUBLE_EQ(WindowSeconds(kHandOverSeconds), kHandOverSeconds);
  EXPECT_DOUBLE_EQ(WindowSeconds(0), kHandOverSeconds / 2);
}

}  // namespace
}  // namespace remesh
