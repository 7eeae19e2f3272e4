// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/routing.h"

#include <gtest/gtest.h>

#include <numeric>

#include "planner/routing/lower_bound.h"
#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::MakeClass;
using testing::MakeTestNetwork;

// Hosts P, Q, R, S, U of one unit each; P -> {Q, R}, Q -> S, R -> U of 60 bits.
DemandClasses PassedOnCopies() {
  return {.classes = {MakeClass({0}, {1, 2}, 60), MakeClass({1}, {3}, 60), MakeClass({2}, {4}, 60)},
          .class_of = {}};
}

Routing RouteOver(const DemandClasses& demand, const Network& network) {
  return RouteClasses({}, demand, network, HostIngressBound(demand, network));
}

TEST(RoutingTest, CopiesBeyondTheFirstCostSomebodysEgress) {
  const Network network = MakeTestNetwork(5);
  const DemandClasses demand = PassedOnCopies();
  const Routing routing = RouteOver(demand, network);
  EXPECT_TRUE((routing.t0 == Rational{80, 1}));  // 4 / 3 of LB: three hosts send four copies
  EXPECT_TRUE((LowerBound(demand, Units(network)).t == Rational{60, 1}));
}

TEST(RoutingTest, TheSetThatProvesT0IsNamed) {
  const Network network = MakeTestNetwork(5);
  const DemandClasses demand = PassedOnCopies();
  const Bound bound = RoutingBound(demand, Units(network), RouteOver(demand, network));
  EXPECT_EQ(bound.certificate.kind, Certificate::Kind::kRelay);
  EXPECT_EQ(bound.certificate.hosts, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(bound.certificate.bits, 240);
  EXPECT_EQ(bound.certificate.capacity, 3);
}

TEST(RoutingTest, EverySumIsServedWithinT0) {
  const Network network = MakeTestNetwork(5);
  const DemandClasses demand = PassedOnCopies();
  const Routing routing = RouteOver(demand, network);
  std::vector<int64_t> sent(5, 0);
  for (size_t a = 0; a < demand.classes.size(); ++a) {
    const DemandClass& one = demand.classes[a];
    Group hosts = one.holders;
    hosts.insert(hosts.end(), one.needers.begin(), one.needers.end());
    for (size_t k = 0; k < hosts.size(); ++k) sent[hosts[k]] += routing.sent[a][k];
    EXPECT_EQ(std::accumulate(routing.sent[a].begin(), routing.sent[a].end(), int64_t{0}),
              one.bits * static_cast<int64_t>(one.needers.size()));
    EXPECT_GE(routing.sent[a][0], one.bits);
  }
  for (int64_t bits : sent) EXPECT_LE(bits, 80);
}

TEST(RoutingTest, DisjointReceiversChainAtTheBound) {
  const Network network = MakeTestNetwork(4);
  const DemandClasses demand = {.classes = {MakeClass({0}, {1, 2, 3}, 60)}, .class_of = {}};
  EXPECT_TRUE((RouteOver(demand, network).t0 == LowerBound(demand, Units(network)).t));
}

}  // namespace
}  // namespace remesh::planner
