// SPDX-License-Identifier: Apache-2.0
#include "server/questions/live_topology.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace remesh::server {
namespace {

planner::Host HostWith(const std::string& name, int nics) {
  return {.name = name, .device_ids = {0}, .nics = nics};
}

TopologyChanged Changed(std::vector<planner::Host> hosts) {
  return {.hosts = std::move(hosts), .gone = {}, .domains = std::nullopt};
}

TEST(LiveTopologyTest, WithoutHostsThereIsNone) {
  LiveTopology topology({});
  EXPECT_EQ(topology.Get(), nullptr);
  topology.Apply(Changed({HostWith("a", 1)}));
  EXPECT_NE(topology.Get(), nullptr);
  topology.Apply({.hosts = {}, .gone = {"a"}, .domains = std::nullopt});
  EXPECT_EQ(topology.Get(), nullptr);
}

TEST(LiveTopologyTest, HostsAreSortedAndTheLastChangeOfEachCounts) {
  const std::vector<planner::Domain> domains = {{.name = "rack"}};
  LiveTopology topology(domains);
  topology.Apply(Changed({HostWith("b", 1), HostWith("c", 1)}));
  topology.Apply(Changed({HostWith("a", 1), HostWith("b", 2)}));
  topology.Apply({.hosts = {}, .gone = {"c", "unknown"}, .domains = std::nullopt});
  const auto built = topology.Get();
  ASSERT_EQ(built->hosts.size(), 2u);
  EXPECT_EQ(built->hosts[0].name, "a");
  EXPECT_EQ(built->hosts[1].nics, 2);
  EXPECT_EQ(built->domains[0].name, "rack");
}

TEST(LiveTopologyTest, ItIsKeptUntilSomethingChanges) {
  LiveTopology topology({});
  topology.Apply(Changed({HostWith("a", 1)}));
  const auto built = topology.Get();
  EXPECT_EQ(topology.Get(), built);
  const std::vector<planner::Domain> domains = {{.name = "pod"}};
  topology.Apply({.hosts = {}, .gone = {}, .domains = domains});
  EXPECT_EQ(topology.Get()->domains[0].name, "pod");
  EXPECT_TRUE(built->domains.empty()) << "who has it keeps it as it was";
}

}  // namespace
}  // namespace remesh::server
