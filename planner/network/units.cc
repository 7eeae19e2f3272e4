// SPDX-License-Identifier: Apache-2.0
#include "planner/network/units.h"

#include <algorithm>

namespace remesh::planner {
namespace {

constexpr int kLevelsMax = 8;

}  // namespace

Units::Units(const Network& network) : network_(network) {
  for (const Network::DomainNode& domain : network.domains) {
    depth_.push_back(domain.parent < 0 ? 0 : depth_[domain.parent] + 1);
  }
}

int Units::levels() const {
  const int deepest = depth_.empty() ? -1 : *std::max_element(depth_.begin(), depth_.end());
  return std::min(deepest + 1, kLevelsMax);
}

int32_t Units::UnitAt(int32_t host, int level) const {
  if (level < 0) return host;
  const int32_t domain = DomainAt(host, level);
  if (domain < 0 || depth_[domain] < level) return host;
  return network_.host_count() + domain;
}

int32_t Units::DomainAt(int32_t host, int level) const {
  int32_t domain = network_.hosts[host].parent;
  while (domain >= 0 && depth_[domain] > level) domain = network_.domains[domain].parent;
  return domain;
}

int64_t Units::Capacity(int32_t unit, bool egress) const {
  if (unit < network_.host_count()) return std::max<int64_t>(1, network_.hosts[unit].capacity());
  const Network::DomainNode& domain = network_.domains[unit - network_.host_count()];
  return egress ? domain.egress : domain.ingress;
}

}  // namespace remesh::planner
