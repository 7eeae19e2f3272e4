// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/moves/moves.h"
#include "planner/network/network.h"

namespace remesh::testing {

// `hosts` equal hosts; NIC i of a host serves the devices from i * devices / nics on. For small
// tests.
inline planner::Network MakeTestNetwork(int32_t hosts, int32_t devices = 1, int32_t nics = 1,
                                        int64_t nic_capacity = 1, int64_t fabric_capacity = 1000) {
  planner::Network network;
  for (int32_t h = 0; h < hosts; ++h) {
    planner::Network::HostNode host{.nic_capacity = nic_capacity,
                                    .fabric_capacity = fabric_capacity,
                                    .nics = {},
                                    .first_device = h * devices,
                                    .device_count = devices};
    for (int32_t i = 0; i < nics; ++i) {
      host.nics.push_back(static_cast<int32_t>(network.nics.size()));
      network.nics.push_back({.host = h, .devices = {}});
    }
    for (int32_t i = 0; i < devices; ++i) {
      network.host_of.push_back(h);
      network.nic_of.push_back(host.nics[i * nics / devices]);
      network.nics[network.nic_of.back()].devices.push_back(h * devices + i);
    }
    network.hosts.push_back(std::move(host));
  }
  network.named.assign(network.host_of.size(), true);
  network.lost.assign(network.host_of.size(), false);
  return network;
}

inline planner::DemandClass MakeClass(planner::Group holders, planner::Group needers,
                                      int64_t bits) {
  return {.holders = std::move(holders), .needers = std::move(needers), .tapes = {}, .bits = bits};
}

// Adds one segment of `bits` bits that goes whole along these hops (from, to), one after another.
inline void AddChain(int64_t bits, const std::vector<std::pair<int32_t, int32_t>>& hops,
                     planner::Moves& moves) {
  const int32_t segment = static_cast<int32_t>(moves.segments.size());
  moves.segments.push_back({0, 0, bits});
  for (size_t i = 0; i < hops.size(); ++i) {
    moves.moves.push_back({.segment = segment,
                           .from_device = hops[i].first,
                           .to_device = hops[i].second,
                           .from_space = i == 0 ? planner::Space::kSource : planner::Space::kTarget,
                           .hop = static_cast<int32_t>(i),
                           .hi = bits});
  }
}

}  // namespace remesh::testing
