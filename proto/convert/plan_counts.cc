// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/plan_counts.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace remesh::proto {

using planner::ArraySpec;

namespace {

struct SideCounts {
  int64_t devices = 0;
  int64_t hosts = 0;
};

SideCounts CountSide(const planner::ReshardRequest& request, planner::Placement ArraySpec::*side) {
  absl::flat_hash_set<const planner::DeviceList*> lists;
  absl::flat_hash_set<int64_t> devices;
  for (const ArraySpec& array : request.arrays) {
    const planner::DeviceListPtr& list = (array.*side).devices;
    if (lists.insert(list.get()).second) devices.insert(list->begin(), list->end());
  }
  SideCounts counts{.devices = static_cast<int64_t>(devices.size())};
  for (const planner::Host& host : request.topology.hosts) {
    counts.hosts += std::any_of(host.device_ids.begin(), host.device_ids.end(),
                                [&](int64_t id) { return devices.contains(id); });
  }
  return counts;
}

}  // namespace

PlanCounts CountsOf(const planner::ReshardRequest& request) {
  const SideCounts source = CountSide(request, &ArraySpec::source);
  const SideCounts target = CountSide(request, &ArraySpec::target);
  return {.arrays = static_cast<int64_t>(request.arrays.size()),
          .source_devices = source.devices,
          .target_devices = target.devices,
          .source_hosts = source.hosts,
          .target_hosts = target.hosts,
          .hosts_assumed = HostsAssumed(request.topology)};
}

int32_t HostsAssumed(const planner::Topology& topology) {
  const auto is_assumed = [](const planner::Host& host) { return host.capacities_assumed; };
  return static_cast<int32_t>(
      std::count_if(topology.hosts.begin(), topology.hosts.end(), is_assumed));
}

int32_t HostsAssumed(const v1::Topology& topology) {
  const auto is_assumed = [](const v1::Host& host) { return host.capacities_assumed(); };
  return static_cast<int32_t>(
      std::count_if(topology.hosts().begin(), topology.hosts().end(), is_assumed));
}

void SetCounts(const PlanCounts& counts, v1::Plan& plan) {
  plan.set_arrays(counts.arrays);
  plan.set_source_devices(counts.source_devices);
  plan.set_target_devices(counts.target_devices);
  plan.set_source_hosts(counts.source_hosts);
  plan.set_target_hosts(counts.target_hosts);
  plan.set_hosts_assumed(counts.hosts_assumed);
}

}  // namespace remesh::proto
