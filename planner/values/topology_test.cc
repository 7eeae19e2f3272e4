// SPDX-License-Identifier: Apache-2.0
#include "planner/values/topology.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"

namespace remesh::planner {
namespace {

Topology GoodTopology() {
  return {.hosts = {{"a", {0, 1}, 1e9, 1, 1e10, "rack"}, {"b", {2}, 1e9, 4, 1e10, ""}},
          .domains = {{"rack", "pod", 1e9, 2e9}, {"pod", "", 1e9, 1e9}}};
}

TEST(TopologyTest, ParentsMayComeAfterTheirChildren) {
  EXPECT_TRUE(ValidateTopology(GoodTopology()).ok());
}

TEST(TopologyTest, WhatIsWrongIsNamed) {
  const auto field = [](const std::function<void(Topology&)>& damage) {
    Topology topology = GoodTopology();
    damage(topology);
    return GetErrorInfo(ValidateTopology(topology)).metadata["field"];
  };
  using T = Topology;
  EXPECT_EQ(field([](T& t) { t.hosts.clear(); }), "hosts");
  EXPECT_EQ(field([](T& t) { t.hosts[1].name = ""; }), "hosts[1].name");
  EXPECT_EQ(field([](T& t) { t.hosts[1].name = "a"; }), "hosts[1].name");
  EXPECT_EQ(field([](T& t) { t.hosts[1].device_ids.clear(); }), "hosts[1].device_ids");
  EXPECT_EQ(field([](T& t) { t.hosts[1].device_ids = {1}; }), "hosts[1].device_ids[0]");
  EXPECT_EQ(field([](T& t) { t.hosts[1].device_ids = {-1}; }), "hosts[1].device_ids[0]");
  EXPECT_EQ(field([](T& t) { t.hosts[0].nics = 0; }), "hosts[0].nics");
  EXPECT_EQ(field([](T& t) { t.hosts[0].nic_bytes_per_second = 0; }),
            "hosts[0].nic_bytes_per_second");
  EXPECT_EQ(field([](T& t) { t.hosts[0].fabric_bytes_per_second = std::nan(""); }),
            "hosts[0].fabric_bytes_per_second");
  EXPECT_EQ(field([](T& t) { t.hosts[0].message_costs.nic_message_seconds = -1; }),
            "hosts[0].nic_message_seconds");
  EXPECT_EQ(field([](T& t) { t.hosts[1].message_costs.fabric_message_seconds = std::nan(""); }),
            "hosts[1].fabric_message_seconds");
  EXPECT_EQ(field([](T& t) { t.hosts[0].message_costs.post_seconds = HUGE_VAL; }),
            "hosts[0].post_seconds");
  EXPECT_EQ(field([](T& t) { t.hosts[0].message_costs.posting_threads = 0; }),
            "hosts[0].posting_threads");
  EXPECT_EQ(field([](T& t) { t.hosts[0].parent = "nowhere"; }), "hosts[0].parent");
  EXPECT_EQ(field([](T& t) { t.hosts[0].parent = "b"; }), "hosts[0].parent");
  EXPECT_EQ(field([](T& t) { t.domains[1].name = "rack"; }), "domains[1].name");
  EXPECT_EQ(field([](T& t) { t.domains[0].egress_bytes_per_second = HUGE_VAL; }),
            "domains[0].egress_bytes_per_second");
  EXPECT_EQ(field([](T& t) { t.domains[0].ingress_bytes_per_second = -1; }),
            "domains[0].ingress_bytes_per_second");
  EXPECT_EQ(field([](T& t) { t.domains[0].parent = "nowhere"; }), "domains[0].parent");
  EXPECT_EQ(field([](T& t) { t.domains[1].parent = "pod"; }), "domains[1].parent");
  EXPECT_EQ(field([](T& t) { t.domains[1].parent = "rack"; }).substr(0, 8), "domains[");
}

}  // namespace
}  // namespace remesh::planner
