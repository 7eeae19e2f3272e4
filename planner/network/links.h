// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/network/network.h"

namespace remesh::planner {

// What transfers share, in one direction: a NIC, the uplink of a domain, or the fabric between a
// device and the others of its host.
struct Link {
  enum class Kind : int8_t { kNic, kDomain, kFabric };
  Kind kind = Kind::kNic;
  int32_t index = 0;  // into Network::nics, Network::domains, or the device
  bool egress = false;
  int64_t bytes_per_second = 0;
};

// The links of a network, and the path of a transfer over them. Links are numbered NICs first, then
// uplinks of domains, then fabric; each has an even number for egress and the odd number after it
// for ingress. All code that counts loads uses these numbers. The network must outlive the object.
class Links {
 public:
  explicit Links(const Network& network);

  const Network& network() const { return network_; }
  const std::vector<Link>& all() const { return links_; }
  int32_t count() const { return static_cast<int32_t>(links_.size()); }
  bool IsFabric(int32_t link) const { return link >= first_fabric_; }
  double SecondsFor(int32_t link, double bits) const {
    return bits / 8 / static_cast<double>(links_[link].bytes_per_second);
  }
  std::string NameOf(int32_t link) const;  // name in words, of a NIC or an uplink

  // The first and the last link between two different devices: their NICs, or, within one host,
  // their fabric. REQUIRES: when their hosts differ, both devices carry.
  int32_t Sender(int32_t from_device, int32_t to_device) const {
    return 2 * EndOf(from_device, to_device);
  }
  int32_t Receiver(int32_t from_device, int32_t to_device) const {
    return 2 * EndOf(to_device, from_device) + 1;
  }

  // Calls visit(link) for each link between two devices (none when they are the same device): the
  // links of both ends and, across hosts, the uplinks of the domains below the nearest common one.
  // REQUIRES: see Sender().
  template <typename Visit>
  void ForEachOnPath(int32_t from_device, int32_t to_device, const Visit& visit) const {
    if (from_device == to_device) return;
    visit(Sender(from_device, to_device));
    const int32_t from = network_.host_of[from_device];
    const int32_t to = network_.host_of[to_device];
    if (from != to) {
      ForEachUplink(from, to, 0, visit);
      ForEachUplink(to, from, 1, visit);
    }
    visit(Receiver(from_device, to_device));
  }

 private:
  // Half the egress number of the device's link towards `other`.
  int32_t EndOf(int32_t device, int32_t other) const {
    const bool inside = network_.host_of[device] == network_.host_of[other];
    return inside ? first_fabric_ / 2 + device : network_.nic_of[device];
  }
  bool Contains(int32_t domain, int32_t host) const;

  // Visits the domains above `host` that do not contain `other`.
  template <typename Visit>
  void ForEachUplink(int32_t host, int32_t other, int32_t direction, const Visit& visit) const {
    for (int32_t d = network_.hosts[host].parent; d >= 0; d = network_.domains[d].parent) {
      if (Contains(d, other)) return;
      visit(first_domain_ + 2 * d + direction);
    }
  }

  const Network& network_;
  std::vector<Link> links_;
  int32_t first_domain_ = 0;
  int32_t first_fabric_ = 0;
};

// Bits on every link, summed over flows. When all transfers of a window run at rates in proportion
// to their bytes, the window lasts as long as its busiest link.
class LinkLoads {
 public:
  explicit LinkLoads(const Links& links) : links_(&links), bits_(links.all().size(), 0) {}

  void Add(int32_t from_device, int32_t to_device, int64_t bits);
  // Seconds of the busiest link.
  double seconds() const { return seconds_; }
  double SecondsOf(int32_t link) const {
    return links_->SecondsFor(link, static_cast<double>(bits_[link]));
  }
  int64_t BitsOf(int32_t link) const { return bits_[link]; }
  // Links with bits, in order of first use.
  const std::vector<int32_t>& used() const { return used_; }
  void Clear();

 private:
  const Links* links_;
  std::vector<int64_t> bits_;
  std::vector<int32_t> used_;
  double seconds_ = 0;
};

}  // namespace remesh::planner
