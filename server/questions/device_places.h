// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "planner/values/topology.h"

namespace remesh::server {

// The place of a device: the index of its host in the topology, and its index on that host.
struct DevicePlace {
  int32_t host = 0;
  int32_t local = 0;
  friend auto operator<=>(const DevicePlace&, const DevicePlace&) = default;
};

// The places of all devices, by device id.
inline absl::flat_hash_map<int64_t, DevicePlace> DevicePlacesOf(const planner::Topology& topology) {
  absl::flat_hash_map<int64_t, DevicePlace> places;
  for (size_t h = 0; h < topology.hosts.size(); ++h) {
    const std::vector<int64_t>& ids = topology.hosts[h].device_ids;
    for (size_t i = 0; i < ids.size(); ++i) {
      places[ids[i]] = {static_cast<int32_t>(h), static_cast<int32_t>(i)};
    }
  }
  return places;
}

}  // namespace remesh::server
