// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/crossings.h"

#include <gtest/gtest.h>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::MakeClass;
using testing::MakeTestNetwork;

// Pod 0 has rack 1 with hosts 0, 1 and rack 2 with hosts 2, 3; hosts 4, 5 lie in rack 3, host 6
// next to the root.
Network PodAndRacks() {
  Network network = MakeTestNetwork(7);
  network.domains = {{.parent = -1, .egress = 1, .ingress = 1},
                     {.parent = 0, .egress = 1, .ingress = 1},
                     {.parent = 0, .egress = 1, .ingress = 1},
                     {.parent = -1, .egress = 1, .ingress = 1}};
  const int32_t parents[] = {1, 1, 2, 2, 3, 3, -1};
  for (int32_t h = 0; h < 7; ++h) network.hosts[h].parent = parents[h];
  return network;
}

TEST(CrossingsTest, EveryDomainIsEnteredOnce) {
  const Network network = PodAndRacks();
  const Units units(network);
  const auto crossings = CrossingsOf(MakeClass({6}, {0, 1, 2, 4, 5}, 8), units);
  ASSERT_EQ(crossings.size(), 4u);
  EXPECT_EQ(crossings[0].domain, -1);  // host 6 to the pod and to rack 3
  EXPECT_EQ(crossings[0].copies, 2);
  EXPECT_EQ(crossings[0].holding, 1);
  EXPECT_EQ(crossings[0].holding_hosts(), 1);
  EXPECT_EQ(crossings[0].hosts.front(), 6);
  EXPECT_EQ(crossings[1].domain, 0);  // between racks 1 and 2, whichever is entered
  EXPECT_EQ(crossings[1].copies, 1);
  EXPECT_EQ(crossings[1].holding, 0);
  EXPECT_EQ(crossings[1].hosts, (Group{0, 1, 2}));
  EXPECT_EQ(crossings[1].children[0].crossing, 2);
  EXPECT_EQ(crossings[1].children[1].crossing, -1);
  EXPECT_EQ(crossings[2].domain, 1);
  EXPECT_EQ(crossings[2].copies, 1);
  EXPECT_EQ(crossings[3].domain, 3);
}

TEST(CrossingsTest, WhatADomainHoldsStaysInside) {
  const Network network = PodAndRacks();
  const Units units(network);
  const auto crossings = CrossingsOf(MakeClass({0, 4}, {1, 5}, 8), units);
  ASSERT_EQ(crossings.size(), 2u);
  EXPECT_EQ(crossings[0].domain, 1);
  EXPECT_EQ(crossings[0].holding, 1);
  EXPECT_EQ(crossings[0].hosts, (Group{0, 1}));
  EXPECT_EQ(crossings[1].domain, 3);
}

}  // namespace
}  // namespace remesh::planner
