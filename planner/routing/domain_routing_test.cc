// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/domain_routing.h"

#include <gtest/gtest.h>

#include "planner/routing/domain_trees.h"
#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::MakeClass;
using testing::MakeTestNetwork;

// Two racks: hosts 0 and 1, hosts 2, 3 and 4.
Network TwoRacks(int64_t uplink) {
  Network network = MakeTestNetwork(5, 1, 1, 100);
  network.domains = {{.parent = -1, .egress = uplink, .ingress = 1000},
                     {.parent = -1, .egress = uplink, .ingress = 1000}};
  for (int32_t h : {0, 1}) network.hosts[h].parent = 0;
  for (int32_t h : {2, 3, 4}) network.hosts[h].parent = 1;
  return network;
}

TEST(DomainRoutingTest, ARackIsEnteredOnce) {
  const Network network = TwoRacks(10);
  const DemandClasses demand = {.classes = {MakeClass({0}, {1, 2, 3, 4}, 60)}, .class_of = {}};
  const Units units(network);
  const DomainRouting routing = RouteThroughDomains(demand, units);
  EXPECT_TRUE((routing.bound.t == Rational{60, 10}));
  EXPECT_EQ(routing.bound.certificate.domains, (std::vector<int32_t>{0}));
  const auto routes = MakeDomainTrees(demand, routing);
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

// Host 1 alone must send 900 bits at 100, so that host 0 sends the 600 that both hold; the rack
// sends 1400 at 200. A NIC in the rack and its uplink limit the same sums.
TEST(DomainRoutingTest, NicsAndUplinksAreOneProblem) {
  const Network network = TwoRacks(200);
  const DemandClasses demand = {
      .classes = {MakeClass({0, 1}, {2}, 600), MakeClass({1}, {3}, 800), MakeClass({1}, {0}, 100)},
      .class_of = {}};
  const DomainRouting routing = RouteThroughDomains(demand, Units(network));
  EXPECT_TRUE((routing.bound.t == Rational{900, 100}));
  EXPECT_EQ(routing.bound.certificate.hosts, (std::vector<int32_t>{1}));
  EXPECT_EQ(routing.sent[0][0], (Served{600, 0, 0}));
}

}  // namespace
}  // namespace remesh::planner
