// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/presets/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>

#include "base/error.h"
#include "proto/convert/plan_proto.h"
#include "proto/convert/plan_spec.h"
#include "proto/convert/presets/message_costs.h"
#include "proto/text/text.h"

namespace remesh::proto {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string FieldOf(const absl::Status& status) { return GetErrorInfo(status).metadata["field"]; }

TEST(PresetsTest, EachIsWholeAndMakesATopology) {
  std::set<std::string> names;
  for (const v1::TopologyPreset& preset : Presets().presets()) {
    SCOPED_TRACE(preset.name());
    names.insert(preset.name());
    EXPECT_FALSE(preset.description().empty());
    const int hosts = preset.has_group() ? 2 * preset.group().hosts() : 2;
    const auto made = MakeTopology({.preset = preset.name(), .hosts = hosts, .racks = 2});
    ASSERT_TRUE(made.ok()) << made.status();
    const auto topology = ToTopology(*made, nullptr);
    ASSERT_TRUE(topology.ok()) << topology.status();
    EXPECT_THAT(topology->hosts, SizeIs(hosts));
    EXPECT_EQ(topology->hosts[1].device_ids.front(), preset.devices());
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Presets().presets_size())) << "names are unique";
  for (const char* name : {"hgx-h100", "gb200-nvl72", "tpu-v5p", "cpu-25g", "loopback"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(PresetsTest, AHostTakesWhatItLeavesOpen) {
  v1::Topology message;
  ASSERT_TRUE(ParseText(R"(hosts:
- {name: a, device_ids: [0, 1], preset: hgx-h100}
- {name: b, device_ids: [2, 3], preset: hgx-h100, nics: 2, nic_bytes_per_second: 1e9})",
                        message)
                  .ok());
  const auto topology = ToTopology(message, nullptr);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->hosts[0].nics, 8);
  EXPECT_EQ(topology->hosts[0].nic_bytes_per_second, 50e9);
  EXPECT_EQ(topology->hosts[0].fabric_bytes_per_second, 450e9);
  EXPECT_EQ(topology->hosts[1].nics, 2);
  EXPECT_EQ(topology->hosts[1].nic_bytes_per_second, 1e9);
  EXPECT_EQ(topology->hosts[1].fabric_bytes_per_second, 450e9);
}

// 0 is "not given": the preset's cost, else that of NCCL.
TEST(PresetsTest, CostsOfMessagesAreTheHostsThenThePresets) {
  v1::Topology message;
  ASSERT_TRUE(ParseText(R"(hosts:
- {name: a, device_ids: [0], nic_bytes_per_second: 1e9, fabric_bytes_per_second: 1e9}
- {name: b, device_ids: [1], preset: hgx-h100}
- {name: c, device_ids: [2], preset: cpu-100g}
- {name: d, device_ids: [3], preset: cpu-100g, post_seconds: 1e-5, fabric_message_seconds: 1e-7,
   posting_threads: 4})",
                        message)
                  .ok());
  const auto topology = ToTopology(message, nullptr);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->hosts[0].message_costs, planner::MessageCosts{});
  EXPECT_EQ(topology->hosts[1].message_costs, planner::MessageCosts{});
  EXPECT_EQ(topology->hosts[2].message_costs, kTcpMessageCosts);
  EXPECT_EQ(topology->hosts[3].message_costs, (planner::MessageCosts{.nic_message_seconds = 10e-6,
                                                                     .fabric_message_seconds = 1e-7,
                                                                     .post_seconds = 1e-5,
                                                                     .posting_threads = 4}));
  const auto again = ToTopology(ToProto(*topology), nullptr);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *topology);
}

TEST(PresetsTest, ACostOfMessagesThatCannotBeIsNamedWithItsValue) {
  for (const auto& [given, field, value] :
       {std::tuple("nic_message_seconds: -1e-6", "nic_message_seconds", "-1e-06"),
        std::tuple("fabric_message_seconds: 1.5", "fabric_message_seconds", "1.5"),
        std::tuple("post_seconds: 2", "post_seconds", "2"),
        std::tuple("posting_threads: -1", "posting_threads", "-1"),
        std::tuple("posting_threads: 4097", "posting_threads", "4097")}) {
    v1::Topology message;
    ASSERT_TRUE(ParseText(std::string("hosts: [{name: a, device_ids: [0], preset: hgx-h100, ") +
                              given + "}]",
                          message)
                    .ok())
        << given;
    const absl::Status status = ToTopology(message, nullptr).status();
    EXPECT_EQ(FieldOf(status), std::string("hosts[0].") + field);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("\"") + value + "\""));
  }
}

TEST(PresetsTest, WithoutPresetACapacityIsAskedFor) {
  v1::Topology message;
  ASSERT_TRUE(ParseText("hosts: [{name: a, device_ids: [0], nics: 1}]", message).ok());
  EXPECT_EQ(FieldOf(ToTopology(message, nullptr).status()), "hosts[0].nic_bytes_per_second");
}

TEST(PresetsTest, UnknownPresetsAreRefusedWithTheKnownOnes) {
  v1::Topology message;
  ASSERT_TRUE(ParseText("hosts: [{name: a, device_ids: [0], preset: dgx}]", message).ok());
  const absl::Status status = ToTopology(message, nullptr).status();
  EXPECT_EQ(FieldOf(status), "hosts[0].preset");
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"dgx\" must be one of cpu-100g, "));
}

TEST(PresetsTest, RacksShareTheirHostsNicsOversubscribed) {
  const auto made = MakeTopology(
      {.preset = "hgx-h100", .hosts = 5, .first_device = 100, .racks = 2, .oversubscription = 4});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->hosts(1).name(), "host-1");
  EXPECT_EQ(made->hosts(1).parent(), "rack-0");
  EXPECT_EQ(made->hosts(2).parent(), "rack-1");
  EXPECT_EQ(made->hosts(4).device_ids(7), 139);
  ASSERT_EQ(made->domains_size(), 2);
  EXPECT_EQ(made->domains(0).egress_bytes_per_second(), 2 * 400e9 / 4);
  EXPECT_EQ(made->domains(1).ingress_bytes_per_second(), 3 * 400e9 / 4);
}

TEST(PresetsTest, GroupsStandBelowRacks) {
  const auto made = MakeTopology({.preset = "gb200-nvl72-tray", .hosts = 40, .racks = 1});
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->domains_size(), 4);
  EXPECT_EQ(made->domains(2).name(), "nvl72-2");
  EXPECT_EQ(made->domains(2).egress_bytes_per_second(), 4 * 200e9) << "four trays are left over";
  EXPECT_EQ(made->domains(0).egress_bytes_per_second(), 72 * 50e9) << "a NIC a GPU";
  EXPECT_EQ(made->domains(0).parent(), "rack-0");
  EXPECT_EQ(made->domains(3).egress_bytes_per_second(), 40 * 200e9);
  EXPECT_EQ(made->hosts(18).parent(), "nvl72-1");
}

TEST(PresetsTest, ClustersThatCannotBeAreRefused) {
  const auto field = [](const Cluster& cluster) { return FieldOf(MakeTopology(cluster).status()); };
  EXPECT_EQ(field({.preset = "x"}), "preset");
  EXPECT_EQ(field({.preset = "loopback", .hosts = 0}), "hosts");
  EXPECT_EQ(field({.preset = "loopback", .hosts = 65537}), "hosts");
  EXPECT_EQ(field({.preset = "loopback", .first_device = -1}), "first_device");
  EXPECT_EQ(field({.preset = "loopback", .hosts = 2, .racks = 3}), "racks");
  EXPECT_EQ(field({.preset = "loopback", .racks = -1}), "racks");
  EXPECT_EQ(field({.preset = "loopback", .oversubscription = std::nan("")}), "oversubscription");
  EXPECT_EQ(field({.preset = "loopback", .oversubscription = 0}), "oversubscription");
}

}  // namespace
}  // namespace remesh::proto
