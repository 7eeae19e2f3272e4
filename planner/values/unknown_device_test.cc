// SPDX-License-Identifier: Apache-2.0
#include "planner/values/unknown_device.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace remesh::planner {
namespace {

std::string MessageFor(int64_t id, const std::vector<std::vector<int64_t>>& hosts) {
  Topology topology;
  for (const std::vector<int64_t>& ids : hosts) topology.hosts.push_back({.device_ids = ids});
  const absl::Status status = UnknownDevice("devices[1]", id, topology);
  EXPECT_EQ(GetErrorInfo(status).metadata["field"], "devices[1]");
  return std::string(status.message());
}

TEST(UnknownDeviceTest, AFewRangesAreAllNamed) {
  EXPECT_EQ(MessageFor(4, {{2, 3}, {0, 1}}),
            "devices[1]: value \"4\" must be a device of the topology, which has 0..3");
  EXPECT_EQ(MessageFor(5, {{0, 1}, {9}, {12, 13}}),
            "devices[1]: value \"5\" must be a device of the topology, which has 0..1, 9, 12..13");
}

TEST(UnknownDeviceTest, OfManyRangesTheNearestAreNamed) {
  std::vector<std::vector<int64_t>> hosts;
  for (int64_t host = 0; host < 1000; ++host) hosts.push_back({10 * host, 10 * host + 1});
  const auto nearest = [&](int64_t id) {
    const std::string message = MessageFor(id, hosts);
    EXPECT_NE(message.find("which has 2000 devices from 0 to 9991, the nearest "), message.npos)
        << message;
    return message.substr(message.find("nearest ") + 8);
  };
  EXPECT_EQ(nearest(-5), "0..1, 10..11, 20..21, 30..31");
  EXPECT_EQ(nearest(5), "0..1, 10..11, 20..21, 30..31");
  EXPECT_EQ(nearest(5005), "4990..4991, 5000..5001, 5010..5011, 5020..5021");
  EXPECT_EQ(nearest(99999), "9960..9961, 9970..9971, 9980..9981, 9990..9991");
}

}  // namespace
}  // namespace remesh::planner
