// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/lower_bound.h"

#include <gtest/gtest.h>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::MakeClass;
using testing::MakeTestNetwork;

TEST(LowerBoundTest, AHostThatNeedsMuchBinds) {
  const DemandClasses demand = {.classes = {MakeClass({0}, {2}, 50), MakeClass({1}, {2}, 70)},
                                .class_of = {}};
  const Bound bound = LowerBound(demand, Units(MakeTestNetwork(3)));
  EXPECT_TRUE((bound.t == Rational{120, 1}));
  EXPECT_EQ(bound.certificate.kind, Certificate::Kind::kIngress);
  EXPECT_EQ(bound.certificate.hosts, std::vector<int32_t>{2});
}

TEST(LowerBoundTest, HoldersOfMuchBindTogether) {
  const DemandClasses demand = {
      .classes = {MakeClass({0, 1}, {2}, 100), MakeClass({0, 1}, {3}, 100)}, .class_of = {}};
  Network network = MakeTestNetwork(4);
  network.hosts[2].nic_capacity = network.hosts[3].nic_capacity = 10;
  const Bound bound = LowerBound(demand, Units(network));
  EXPECT_EQ(bound.certificate.kind, Certificate::Kind::kEgress);
  EXPECT_EQ(bound.certificate.hosts, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(bound.certificate.bits, 200);
  EXPECT_EQ(bound.certificate.capacity, 2);
}

TEST(LowerBoundTest, ANarrowUplinkBindsOnceForAllItsHosts) {
  Network network = MakeTestNetwork(3, 1, 1, 10);
  network.domains = {{.parent = -1, .egress = 5, .ingress = 5}};
  network.hosts[1].parent = network.hosts[2].parent = 0;
  const DemandClasses demand = {.classes = {MakeClass({0}, {1, 2}, 100)}, .class_of = {}};
  const Bound bound = LowerBound(demand, Units(network));
  EXPECT_TRUE((bound.t == Rational{100, 5}));
  EXPECT_EQ(bound.certificate.domains, std::vector<int32_t>{0});
}

TEST(LowerBoundTest, NothingToSendTakesNoTime) {
  EXPECT_EQ(LowerBound({}, Units(MakeTestNetwork(2))).t.num, 0);
}

// Host 0 lies next to the root, hosts 1 and 2 in a rack; both it and the rack hold what host 3
// needs, so that members of different levels bind together.
TEST(LowerBoundTest, MembersOfDifferentLevelsSendTogether) {
  Network network = MakeTestNetwork(4, 1, 1, 3);
  network.domains = {{.parent = -1, .egress = 1, .ingress = 10}};
  for (int32_t h : {1, 2}) network.hosts[h].parent = 0;
  const DemandClasses demand = {
      .classes = {MakeClass({0, 1}, {3}, 60), MakeClass({1}, {2}, 500), MakeClass({3}, {0}, 70)},
      .class_of = {}};
  const Bound bound = EgressOf({0}, {0}, demand, Units(network));
  EXPECT_TRUE((bound.t == Rational{60, 4}));
  EXPECT_EQ(bound.certificate.bits, 60);
  EXPECT_EQ(bound.certificate.capacity, 4);
}

}  // namespace
}  // namespace remesh::planner
