// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/trees.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::MakeClass;

Group Range(int32_t begin, int32_t end) {
  Group group(end - begin);
  std::iota(group.begin(), group.end(), begin);
  return group;
}

// Every needer is entered once in each segment, by a host that has it.
void ExpectTrees(const DemandClass& demand, const Route& route) {
  int64_t at = 0;
  for (const RouteSegment& segment : route) {
    EXPECT_EQ(segment.begin, at);
    at = segment.end;
    std::set<int32_t> have(demand.holders.begin(), demand.holders.end());
    for (const RouteEdge& edge : segment.edges) {
      EXPECT_TRUE(have.contains(edge.from_host));
      EXPECT_TRUE(have.insert(edge.to_host).second);
    }
    EXPECT_EQ(have.size(), demand.holders.size() + demand.needers.size());
  }
  EXPECT_EQ(at, demand.bits);
}

std::map<int32_t, int64_t> SentBy(const Route& route) {
  std::map<int32_t, int64_t> sent;
  for (const RouteSegment& segment : route) {
    for (const RouteEdge& edge : segment.edges) sent[edge.from_host] += segment.end - segment.begin;
  }
  return sent;
}

TEST(TreesTest, FractionsBecomeSegments) {
  const DemandClass demand = MakeClass({0, 1}, {2}, 10);
  const Route route = MakeTrees(demand, {4, 6, 0});
  ASSERT_EQ(route.size(), 2u);
  ExpectTrees(demand, route);
  EXPECT_EQ(SentBy(route), (std::map<int32_t, int64_t>{{0, 4}, {1, 6}}));
}

TEST(TreesTest, LongChainsBecomeBinaryTrees) {
  for (int32_t needers : {64, 65, 511}) {
    const DemandClass demand = MakeClass({0}, Range(1, needers + 1), 1000);
    std::vector<int64_t> sent(needers + 1, 1000);
    sent.back() = 0;
    const Route route = MakeTrees(demand, sent);
    ExpectTrees(demand, route);
    EXPECT_LE(DepthOf(route), needers == 511 ? 11 : 8);
    for (const auto& [host, bits] : SentBy(route)) EXPECT_LE(bits, 1000) << host;
  }
}

TEST(TreesTest, UnequalRelaysStillMakeTrees) {
  const DemandClass demand = MakeClass({0, 1}, Range(2, 14), 1000);
  std::vector<int64_t> sent = {700, 1300, 999, 1001, 1500, 500, 1000, 1000, 1234, 766, 2000};
  sent.resize(14, 0);
  ASSERT_EQ(std::accumulate(sent.begin(), sent.end(), int64_t{0}), 12000);
  const Route route = MakeTrees(demand, sent);
  ExpectTrees(demand, route);
  for (const auto& [host, bits] : SentBy(route)) EXPECT_LE(bits, sent[host] + 1) << host;
}

}  // namespace
}  // namespace remesh::planner
