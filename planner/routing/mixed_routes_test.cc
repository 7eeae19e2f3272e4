// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/mixed_routes.h"

#include <gtest/gtest.h>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::MakeTestNetwork;

// Hosts 1 and 2 lie in a rack whose ingress is as slow as host 2; hosts 0 and 2 hold what host 1
// needs.
Network SlowRack() {
  Network network = MakeTestNetwork(3, 1, 1, 3);
  network.domains = {{.parent = -1, .egress = 100, .ingress = 1}};
  for (int32_t h : {1, 2}) network.hosts[h].parent = 0;
  network.hosts[2].nic_capacity = 1;
  return network;
}

TEST(MixedRoutesTest, UplinkAndNicShareTheWork) {
  const Network network = SlowRack();
  RoutePlan entering = Timed(network, {{{0, 64000, {{0, 1}}}}});
  RoutePlan inside = Timed(network, {{{0, 64000, {{2, 1}}}}});
  EXPECT_TRUE((entering.t == Rational{64000, 1}));
  EXPECT_TRUE((inside.t == Rational{64000, 1}));
  const RoutePlan mix = LeastBusyMix(network, entering, inside);
  EXPECT_TRUE((mix.t == Rational{32000, 1}));
  ASSERT_EQ(mix.routes[0].size(), 2u);
  EXPECT_EQ(mix.routes[0][0].end, 32000);
  EXPECT_EQ(mix.routes[0][0].edges[0].from_host, 0);
  EXPECT_EQ(mix.routes[0][1].begin, 32000);
  EXPECT_EQ(mix.routes[0][1].end, 64000);
  EXPECT_EQ(mix.routes[0][1].edges[0].from_host, 2);
}

TEST(MixedRoutesTest, TheBetterOneStaysWhole) {
  const Network network = SlowRack();
  const RoutePlan mix =
      LeastBusyMix(network, Timed(network, {{{0, 500, {{2, 1}}}, {500, 1000, {{0, 1}}}}}),
                   Timed(network, {{{0, 1000, {{2, 1}}}}}));
  EXPECT_TRUE((mix.t == Rational{500, 1}));
  EXPECT_EQ(mix.routes[0].size(), 2u);
  EXPECT_EQ(mix.routes[0][0].end, 500);
}

}  // namespace
}  // namespace remesh::planner
