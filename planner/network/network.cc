// SPDX-License-Identifier: Apache-2.0
#include "planner/network/network.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace remesh::planner {
namespace {

int64_t ToInteger(double bytes_per_second) {
  return static_cast<int64_t>(std::llround(std::clamp(bytes_per_second, 1.0, kCapacityMax)));
}

void MarkNamed(const ReshardRequest& request, std::vector<bool>& named) {
  absl::flat_hash_set<const DeviceList*> seen;
  for (const ArraySpec& array : request.arrays) {
    for (const Placement* placement : {&array.source, &array.target}) {
      if (!seen.insert(placement->devices.get()).second) continue;
      for (int64_t id : *placement->devices) named[id] = true;
    }
  }
}

// Adds one NIC for each NIC of the host that a carrying device uses.
void AddNics(const Host& host, int32_t index, Network& network) {
  const int64_t n = static_cast<int64_t>(host.device_ids.size());
  std::vector<int32_t> nic_at(host.nics, -1);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t device = host.device_ids[i];
    if (!network.named[device] || network.lost[device]) continue;
    int32_t& nic = nic_at[i * host.nics / n];
    if (nic < 0) {
      nic = static_cast<int32_t>(network.nics.size());
      network.nics.push_back({.host = index, .devices = {}});
      network.hosts[index].nics.push_back(nic);
    }
    network.nics[nic].devices.push_back(static_cast<int32_t>(device));
    network.nic_of[device] = nic;
  }
}

}  // namespace

Network MakeNetwork(const ReshardRequest& canonical) {
  Network network;
  absl::flat_hash_map<std::string, int32_t> domain_of;
  domain_of[""] = -1;
  for (const Domain& domain : canonical.topology.domains) {
    network.domains.push_back({.parent = domain_of.at(domain.parent),
                               .egress = ToInteger(domain.egress_bytes_per_second),
                               .ingress = ToInteger(domain.ingress_bytes_per_second)});
    domain_of[domain.name] = static_cast<int32_t>(network.domains.size()) - 1;
  }
  for (const Host& host : canonical.topology.hosts) {
    const MessageCosts& costs = host.message_costs;
    network.hosts.push_back({.nic_capacity = ToInteger(host.nic_bytes_per_second),
                             .fabric_capacity = ToInteger(host.fabric_bytes_per_second),
                             .nics = {},
                             .first_device = static_cast<int32_t>(host.device_ids.front()),
                             .device_count = static_cast<int32_t>(host.device_ids.size()),
                             .parent = domain_of.at(host.parent),
                             .nic_message_seconds = costs.nic_message_seconds,
                             .fabric_message_seconds = costs.fabric_message_seconds,
                             .operation_seconds = costs.post_seconds / costs.posting_threads});
    network.host_of.insert(network.host_of.end(), host.device_ids.size(),
                           static_cast<int32_t>(network.hosts.size()) - 1);
  }
  network.nic_of.assign(network.host_of.size(), -1);
  network.named.assign(network.host_of.size(), false);
  network.lost.assign(network.host_of.size(), false);
  MarkNamed(canonical, network.named);
  for (int64_t id : canonical.options.lost_device_ids) network.lost[id] = true;
  for (size_t h = 0; h < network.hosts.size(); ++h) {
    AddNics(canonical.topology.hosts[h], static_cast<int32_t>(h), network);
  }
  return network;
}

}  // namespace remesh::planner
