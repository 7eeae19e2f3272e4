// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/domain_routing.h"

#include <gtest/gtest.h>

#include "planner/routing/test_network.h"

namespace remesh {
namespace {

using testing::MakeClass;
using testing::MakeTestNetwork;

TEST(DomainRoutingTest, ARackIsEnteredOnce) {
  Network network = MakeTestNetwork(5, 1, 1, 100);
  network.domains = {{.parent = -1, .egress = 10, .ingress = 10},
                     {.parent = -1, .egress = 10, .ingress = 10}};
  for (int32_t h : {0, 1}) network.hosts[h].parent = 0;
  for (int32_t h : {2, 3, 4}) network.hosts[h].parent = 1;
  const DemandClasses demand = {.classes = {MakeClass({0}, {1, 2, 3, 4}, 60)}, .class_of = {}};
  const Units units(network);
  const auto routes = RouteThroughDomains(demand, network, units, 0);
  ASSERT_EQ(routes.size(), 1u);
  for (const RouteSegment& segment : routes[0]) {
    EXPECT_EQ(segment.edges.size(), 4u);
    int entries = 0;
    for (const RouteEdge& edge : segment.edges) {
      entries += units.UnitAt(edge.from_host, 0) != units.UnitAt(edge.to_host, 0);
    }
    EXPECT_EQ(entries, 1);
  }
}

}  // namespace
}  // namespace remesh
