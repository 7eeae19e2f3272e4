// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/renumbered_request.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace remesh::testing {
namespace {

using planner::DeviceListPtr;

// Numbers devices host by host. Returns the new number of each device.
std::vector<int64_t> RenumberDevices(planner::Topology& topology) {
  std::vector<int64_t> number_of;
  for (const planner::Host& host : topology.hosts) {
    number_of.resize(number_of.size() + host.device_ids.size());
  }
  int64_t next = 0;
  for (planner::Host& host : topology.hosts) {
    for (int64_t& id : host.device_ids) {
      number_of[id] = next;
      id = next++;
    }
  }
  return number_of;
}

}  // namespace

planner::ReshardRequest WithHostsInRandomOrder(planner::ReshardRequest canonical, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::shuffle(canonical.topology.hosts.begin(), canonical.topology.hosts.end(), random);
  const std::vector<int64_t> number_of = RenumberDevices(canonical.topology);
  std::map<DeviceListPtr, DeviceListPtr> renumbered;  // keeps the lists that it has seen
  for (planner::ArraySpec& array : canonical.arrays) {
    for (planner::Placement* side : {&array.source, &array.target}) {
      DeviceListPtr& list = renumbered[side->devices];
      if (list == nullptr) {
        planner::DeviceList ids = *side->devices;
        for (int64_t& id : ids) id = number_of[id];
        list = std::make_shared<const planner::DeviceList>(std::move(ids));
      }
      side->devices = list;
    }
  }
  for (int64_t& id : canonical.options.lost_device_ids) id = number_of[id];
  return canonical;
}

}  // namespace remesh::testing
