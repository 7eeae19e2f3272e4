// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/network/network.h"
#include "planner/schedule/plan_draft.h"

namespace remesh {

// What moves compete for, numbered: NICs, then uplinks of domains, then the fabric of every device
// (which carries the moves inside a host; a copy in place uses none). Each has an egress (even
// number) and an ingress (odd).
class Resources {
 public:
  explicit Resources(const Network& network);

  int32_t count() const { return static_cast<int32_t>(capacity_.size()); }
  bool IsFabric(int32_t resource) const { return resource >= first_device_; }
  double SecondsFor(int32_t resource, double bits) const { return bits / 8 / capacity_[resource]; }
  std::string NameOf(int32_t resource) const;

  template <typename Visit>
  void ForEachUsed(const Move& move, const Visit& visit) const {
    if (move.from_device == move.to_device) return;
    const int32_t from = network_.host_of[move.from_device];
    const int32_t to = network_.host_of[move.to_device];
    if (from == to) {
      visit(first_device_ + 2 * move.from_device);
      visit(first_device_ + 2 * move.to_device + 1);
      return;
    }
    visit(2 * network_.nic_of[move.from_device]);
    visit(2 * network_.nic_of[move.to_device] + 1);
    ForEachUplink(from, to, 0, visit);
    ForEachUplink(to, from, 1, visit);
  }

 private:
  void AddBoth(int64_t capacity);
  bool Contains(int32_t domain, int32_t host) const;

  // Domains above `host` that do not hold `other` as well.
  template <typename Visit>
  void ForEachUplink(int32_t host, int32_t other, int32_t direction, const Visit& visit) const {
    for (int32_t d = network_.hosts[host].parent; d >= 0; d = network_.domains[d].parent) {
      if (Contains(d, other)) return;
      visit(2 * (static_cast<int32_t>(network_.nics.size()) + d) + direction);
    }
  }

  const Network& network_;
  std::vector<double> capacity_;  // bytes per second
  int32_t first_device_ = 0;
};

}  // namespace remesh
