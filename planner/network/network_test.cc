// SPDX-License-Identifier: Apache-2.0
#include "planner/network/network.h"

#include <gtest/gtest.h>

#include "planner/canonical/canonical.h"

namespace remesh::planner {
namespace {

// A canonical request with a host of six devices and a host of one device. Its lists name the
// devices `named`.
CanonicalRequest Naming(const DeviceList& named, int32_t nics) {
  CanonicalRequest canonical;
  ReshardRequest& request = canonical.request;
  request.topology.hosts = {{"", {0, 1, 2, 3, 4, 5}, 1e9, nics, 1e10, "0"},
                            {"", {6}, 0.25, 1, 1e30, "1"}};
  request.topology.domains = {{"0", "", 5e9, 3e9}, {"1", "0", 1e9, 1e9}};
  const Shape shape = {8};
  const std::vector<int64_t> tiles(named.size(), 0);
  const auto layout =
      std::make_shared<const Layout>(MakeSeparableLayout(shape, {TilePartition(8, 1)}, tiles));
  const Placement placement{layout, std::make_shared<const DeviceList>(named)};
  request.arrays = {{"", shape, ElementType::kU8, placement, placement}};
  return canonical;
}

TEST(NetworkTest, OnlyNicsOfNamedAndLivingDevicesCount) {
  CanonicalRequest canonical = Naming({0, 1, 4, 5, 6}, 3);
  canonical.request.options.lost_device_ids = {4};
  const Network network = MakeNetwork(canonical.request);
  ASSERT_EQ(network.hosts[0].nics.size(), 2u) << "devices 2 and 3 share the NIC between";
  EXPECT_EQ(network.hosts[0].capacity(), 2'000'000'000);
  EXPECT_EQ(network.nics[0].devices, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(network.nics[1].devices, std::vector<int32_t>{5});
  EXPECT_EQ(network.nic_of[2], -1);
  EXPECT_EQ(network.nic_of[4], -1) << "lost";
  EXPECT_EQ(network.nic_of[6], 2);
  EXPECT_TRUE(network.lost[4]);
  EXPECT_FALSE(network.named[3]);
}

TEST(NetworkTest, DeviceIOfNUsesNicIKOverN) {
  const Network network = MakeNetwork(Naming({0, 1, 2, 3, 4, 5}, 4).request);
  EXPECT_EQ(std::vector<int32_t>(network.nic_of.begin(), network.nic_of.end() - 1),
            (std::vector<int32_t>{0, 0, 1, 2, 2, 3}));
}

TEST(NetworkTest, CapacitiesAreWholeAndBounded) {
  const Network network = MakeNetwork(Naming({0, 6}, 1).request);
  EXPECT_EQ(network.hosts[1].nic_capacity, 1);
  EXPECT_EQ(network.hosts[1].fabric_capacity, int64_t{1} << 46);
  EXPECT_EQ(network.domains[0].egress, 5'000'000'000);
  EXPECT_EQ(network.domains[0].ingress, 3'000'000'000);
}

TEST(NetworkTest, ParentsStandBeforeChildren) {
  const Network network = MakeNetwork(Naming({0, 6}, 1).request);
  EXPECT_EQ(network.domains[0].parent, -1);
  EXPECT_EQ(network.domains[1].parent, 0);
  EXPECT_EQ(network.hosts[0].parent, 0);
  EXPECT_EQ(network.hosts[1].parent, 1);
  EXPECT_EQ(network.host_of, (std::vector<int32_t>{0, 0, 0, 0, 0, 0, 1}));
}

}  // namespace
}  // namespace remesh::planner
