// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/resources.h"

#include "absl/strings/str_cat.h"

namespace remesh {

Resources::Resources(const Network& network) : network_(network) {
  for (const Network::Nic& nic : network.nics) AddBoth(network.hosts[nic.host].nic_capacity);
  for (const Network::DomainNode& domain : network.domains) {
    capacity_.push_back(static_cast<double>(domain.egress));
    capacity_.push_back(static_cast<double>(domain.ingress));
  }
  first_device_ = static_cast<int32_t>(capacity_.size());
  for (int32_t host : network.host_of) AddBoth(network.hosts[host].fabric_capacity);
}

std::string Resources::NameOf(int32_t resource) const {
  const char* direction = resource % 2 == 0 ? "egress" : "ingress";
  const int32_t nics = static_cast<int32_t>(network_.nics.size());
  if (resource / 2 < nics) {
    const int32_t host = network_.nics[resource / 2].host;
    return absl::StrCat(direction, " of a NIC of host ", host);
  }
  return absl::StrCat(direction, " of domain ", resource / 2 - nics);
}

void Resources::AddBoth(int64_t capacity) {
  capacity_.push_back(static_cast<double>(capacity));
  capacity_.push_back(static_cast<double>(capacity));
}

bool Resources::Contains(int32_t domain, int32_t host) const {
  for (int32_t d = network_.hosts[host].parent; d >= 0; d = network_.domains[d].parent) {
    if (d == domain) return true;
  }
  return false;
}

}  // namespace remesh
