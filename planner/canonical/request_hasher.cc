// SPDX-License-Identifier: Apache-2.0
#include "planner/canonical/request_hasher.h"

namespace remesh::planner {

RequestHasher::RequestHasher(const ReshardRequest& request, const std::vector<bool>& named) {
  hasher_.AddText(RequestFormat(request.options));
  AddOptions(request);
  AddTopology(request.topology, named);
}

void RequestHasher::AddArray(const ArraySpec& array,
                             absl::FunctionRef<Hash128(const Layout&)> hash_of, Numbers& numbers) {
  hasher_.Add(static_cast<int64_t>(array.element_type));
  if (numbers.source >= 0) {
    hasher_.Add(numbers.source).Add(numbers.target);
    return;
  }
  numbers.source = AddPlacement(array.source, hash_of);
  numbers.target = AddPlacement(array.target, hash_of);
}

void RequestHasher::AddOptions(const ReshardRequest& request) {
  const PlanOptions& options = request.options;
  hasher_.Add(options.window_bytes).Add(options.memory_limit_bytes).Add(options.donate);
  hasher_.Add(options.free_target_order).Add(static_cast<int64_t>(options.strategy));
  hasher_.Add(static_cast<int64_t>(options.lost_device_ids.size()));
  for (int64_t id : options.lost_device_ids) hasher_.Add(id);
  hasher_.Add(static_cast<int64_t>(request.fallbacks.size()));
  for (const Fallback& fallback : request.fallbacks) {
    hasher_.Add(static_cast<int64_t>(fallback.kind)).AddText(fallback.location);
    hasher_.Add(fallback.step);
  }
}

void RequestHasher::AddTopology(const Topology& topology, const std::vector<bool>& named) {
  hasher_.Add(static_cast<int64_t>(topology.domains.size()));
  for (const Domain& domain : topology.domains) {
    hasher_.AddText(domain.parent).AddDouble(domain.egress_bytes_per_second);
    hasher_.AddDouble(domain.ingress_bytes_per_second);
  }
  hasher_.Add(static_cast<int64_t>(topology.hosts.size()));
  for (const Host& host : topology.hosts) {
    hasher_.AddText(host.parent).AddDouble(host.nic_bytes_per_second).Add(host.nics);
    hasher_.AddDouble(host.fabric_bytes_per_second);
    AddUnlessDefault(host.message_costs, hasher_);
    hasher_.Add(static_cast<int64_t>(host.device_ids.size()));
    // A device that no list names takes a place in its host but carries nothing.
    for (int64_t id : host.device_ids) hasher_.Add(named[id]);
  }
}

int64_t RequestHasher::AddPlacement(const Placement& placement,
                                    absl::FunctionRef<Hash128(const Layout&)> hash_of) {
  const auto [entry, inserted] =
      number_of_.try_emplace(KeyOf(placement), static_cast<int64_t>(number_of_.size()));
  hasher_.Add(entry->second);
  if (!inserted) return entry->second;
  hasher_.AddHash(hash_of(*placement.layout)).Add(static_cast<int64_t>(placement.memory_kind));
  hasher_.Add(static_cast<int64_t>(placement.devices->size()));
  for (int64_t id : *placement.devices) hasher_.Add(id);
  for (int32_t position : placement.layout->positions) hasher_.Add(position);
  return entry->second;
}

}  // namespace remesh::planner
