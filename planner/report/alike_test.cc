// SPDX-License-Identifier: Apache-2.0
#include "planner/report/alike.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace remesh::planner {
namespace {

using ::testing::ElementsAre;

DomainTraffic HostTraffic(const std::string& name, double ingress_seconds, double egress_seconds) {
  return {.name = name,
          .ingress_bytes = static_cast<int64_t>(1000 * ingress_seconds),
          .egress_bytes = static_cast<int64_t>(1000 * egress_seconds),
          .ingress_bytes_per_second = 1000,
          .egress_bytes_per_second = 1000,
          .ingress_seconds = ingress_seconds,
          .egress_seconds = egress_seconds};
}

// The kinds of hosts with these rows, and of one host without traffic.
std::vector<AlikeTraffic> AlikeHosts(const std::vector<DomainTraffic>& rows) {
  Binding binding{.host_names = {"n3"}};
  for (const DomainTraffic& row : rows) binding.host_names.push_back(row.name);
  return AlikeOf(rows, binding);
}

TEST(AlikeTest, HostsOfOneLoadStandTogetherInTheOrderOfTheirNames) {
  const auto kinds =
      AlikeHosts({HostTraffic("n10", 10, 0), HostTraffic("n9", 9.9, 0), HostTraffic("n1", 0, 5),
                  HostTraffic("n2", 0, 5), HostTraffic("n11", 0, 5.05)});
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_THAT(kinds[0].names, ElementsAre("n1", "n2", "n11"));
  EXPECT_THAT(kinds[0].runs,
              ElementsAre(AlikeTraffic::Run{"n1", "n2", 2}, AlikeTraffic::Run{"n11", "n11", 1}));
  EXPECT_EQ(kinds[0].least.egress_bytes, 5000);
  EXPECT_EQ(kinds[0].most.egress_bytes, 5050);
  EXPECT_THAT(kinds[1].names, ElementsAre("n9", "n10"));
}

TEST(AlikeTest, ARunDoesNotReachOverAHostWithoutTraffic) {
  const auto kinds =
      AlikeHosts({HostTraffic("n2", 1, 1), HostTraffic("n4", 1, 1), HostTraffic("n5", 1, 1)});
  ASSERT_EQ(kinds.size(), 1u);
  EXPECT_THAT(kinds[0].runs,
              ElementsAre(AlikeTraffic::Run{"n2", "n2", 1}, AlikeTraffic::Run{"n4", "n5", 2}));
}

TEST(AlikeTest, AChainOfSmallStepsIsNotOneKind) {
  std::vector<DomainTraffic> rows;
  for (int i = 0; i < 50; ++i) rows.push_back(HostTraffic("n" + std::to_string(i), 51 + i, 0));
  const auto kinds = AlikeHosts(rows);
  EXPECT_EQ(kinds.size(), 2u);
  for (const AlikeTraffic& kind : kinds) {
    EXPECT_LE(kind.most.ingress_seconds - kind.least.ingress_seconds, 0.3 * 100);
  }
}

TEST(AlikeTest, AGapTellsApart) {
  EXPECT_EQ(AlikeHosts({HostTraffic("a", 80, 0), HostTraffic("b", 89, 0), HostTraffic("c", 98, 0)})
                .size(),
            1u);
  EXPECT_EQ(AlikeHosts({HostTraffic("a", 80, 0), HostTraffic("b", 98, 0)}).size(), 2u);
}

TEST(AlikeTest, ALittleIsNotNothing) {
  EXPECT_EQ(AlikeHosts({HostTraffic("a", 10, 0), HostTraffic("b", 10, 1e-6)}).size(), 2u);
}

TEST(AlikeTest, ManyKindsBecomeFew) {
  std::vector<DomainTraffic> rows;
  for (int i = 1; i <= 100; ++i) rows.push_back(HostTraffic("n" + std::to_string(i), i, 101 - i));
  const auto kinds = AlikeHosts(rows);
  EXPECT_GT(kinds.size(), 1u);
  EXPECT_LE(kinds.size(), 8u);
}

TEST(AlikeTest, DomainsComeFirstLevelByLevel) {
  DomainTraffic rack = HostTraffic("rack", 1, 1), pod = HostTraffic("pod", 1, 1);
  rack.kind = pod.kind = DomainTraffic::Kind::kDomain;
  rack.level = 1;
  const auto kinds = AlikeOf({HostTraffic("a", 1, 1), rack, pod},
                             {.host_names = {"a"}, .domain_names = {"rack", "pod"}});
  ASSERT_EQ(kinds.size(), 3u);
  EXPECT_EQ(kinds[0].least.name, "pod");
  EXPECT_EQ(kinds[1].least.name, "rack");
  EXPECT_EQ(kinds[2].least.name, "a");
}

TEST(AlikeTest, NoRowsHaveNoKinds) { EXPECT_THAT(AlikeHosts({}), ElementsAre()); }

}  // namespace
}  // namespace remesh::planner
