// SPDX-License-Identifier: Apache-2.0
#include "planner/network/links.h"

#include <algorithm>

namespace remesh {

Links::Links(const Network& network) : network_(network) {
  const auto add = [this](Link::Kind kind, size_t index, int64_t egress, int64_t ingress) {
    const int32_t i = static_cast<int32_t>(index);
    links_.push_back({kind, i, true, static_cast<double>(egress)});
    links_.push_back({kind, i, false, static_cast<double>(ingress)});
  };
  for (size_t i = 0; i < network.nics.size(); ++i) {
    const int64_t capacity = network.hosts[network.nics[i].host].nic_capacity;
    add(Link::Kind::kNic, i, capacity, capacity);
  }
  first_domain_ = static_cast<int32_t>(links_.size());
  for (size_t i = 0; i < network.domains.size(); ++i) {
    add(Link::Kind::kDomain, i, network.domains[i].egress, network.domains[i].ingress);
  }
  first_fabric_ = static_cast<int32_t>(links_.size());
  for (size_t i = 0; i < network.host_of.size(); ++i) {
    const int64_t capacity = network.hosts[network.host_of[i]].fabric_capacity;
    add(Link::Kind::kFabric, i, capacity, capacity);
  }
}

bool Links::Holds(int32_t domain, int32_t host) const {
  for (int32_t d = network_.hosts[host].parent; d >= 0; d = network_.domains[d].parent) {
    if (d == domain) return true;
  }
  return false;
}

void Links::ForEachOnPath(int32_t from_device, int32_t to_device,
                          absl::FunctionRef<void(int32_t link)> visit) const {
  const int32_t from = network_.host_of[from_device];
  const int32_t to = network_.host_of[to_device];
  if (from == to) {
    visit(first_fabric_ + 2 * from_device);
    visit(first_fabric_ + 2 * to_device + 1);
    return;
  }
  visit(2 * network_.nic_of[from_device]);
  for (int32_t d = network_.hosts[from].parent; d >= 0; d = network_.domains[d].parent) {
    if (Holds(d, to)) break;
    visit(first_domain_ + 2 * d);
  }
  for (int32_t d = network_.hosts[to].parent; d >= 0; d = network_.domains[d].parent) {
    if (Holds(d, from)) break;
    visit(first_domain_ + 2 * d + 1);
  }
  visit(2 * network_.nic_of[to_device] + 1);
}

void LinkLoads::Add(int32_t from_device, int32_t to_device, int64_t bits) {
  links_->ForEachOnPath(from_device, to_device, [&](int32_t link) {
    if (bits_[link] == 0) used_.push_back(link);
    bits_[link] += bits;
    seconds_ = std::max(seconds_, SecondsOf(link));
  });
}

double LinkLoads::SecondsOf(int32_t link) const {
  return static_cast<double>(bits_[link]) / 8 / links_->all()[link].bytes_per_second;
}

void LinkLoads::Clear() {
  for (const int32_t link : used_) bits_[link] = 0;
  used_.clear();
  seconds_ = 0;
}

}  // namespace remesh
