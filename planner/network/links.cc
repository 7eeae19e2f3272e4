// SPDX-License-Identifier: Apache-2.0
#include "planner/network/links.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace remesh::planner {

Links::Links(const Network& network) : network_(network) {
  const auto add = [this](Link::Kind kind, size_t index, int64_t egress, int64_t ingress) {
    const int32_t i = static_cast<int32_t>(index);
    links_.push_back({kind, i, true, egress});
    links_.push_back({kind, i, false, ingress});
  };
  links_.reserve(2 * (network.nics.size() + network.domains.size() + network.host_of.size()));
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

std::string Links::NameOf(int32_t link) const {
  const char* direction = links_[link].egress ? "egress" : "ingress";
  const int32_t index = links_[link].index;
  if (links_[link].kind == Link::Kind::kNic) {
    return absl::StrCat(direction, " of a NIC of host ", network_.nics[index].host);
  }
  return absl::StrCat(direction, " of domain ", index);
}

bool Links::Contains(int32_t domain, int32_t host) const {
  for (int32_t d = network_.hosts[host].parent; d >= 0; d = network_.domains[d].parent) {
    if (d == domain) return true;
  }
  return false;
}

void LinkLoads::Add(int32_t from_device, int32_t to_device, int64_t bits) {
  links_->ForEachOnPath(from_device, to_device, [&](int32_t link) {
    if (bits_[link] == 0) used_.push_back(link);
    bits_[link] += bits;
    seconds_ = std::max(seconds_, SecondsOf(link));
  });
}

void LinkLoads::Clear() {
  for (const int32_t link : used_) bits_[link] = 0;
  used_.clear();
  seconds_ = 0;
}

}  // namespace remesh::planner
