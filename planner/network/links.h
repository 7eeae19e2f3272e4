// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "planner/network/network.h"

namespace remesh {

// What transfers share, one entry for each direction: NICs, uplinks of domains, and the fabric of
// every device inside its host.
struct Link {
  enum class Kind : int8_t { kNic, kDomain, kFabric };
  Kind kind = Kind::kNic;
  int32_t index = 0;  // into Network::nics, Network::domains, or the device
  bool egress = false;
  double bytes_per_second = 0;
};

// The links of a network and the way of a transfer over them.
class Links {
 public:
  explicit Links(const Network& network);

  const std::vector<Link>& all() const { return links_; }

  // Calls visit(index into all()) for each link between two different devices: the NICs and the
  // uplinks that the nearest common domain does not hold, or the fabric within a host. REQUIRES:
  // both carry when their hosts differ.
  void ForEachOnPath(int32_t from_device, int32_t to_device,
                     absl::FunctionRef<void(int32_t link)> visit) const;

 private:
  bool Holds(int32_t domain, int32_t host) const;

  const Network network_;
  std::vector<Link> links_;
  int32_t first_domain_ = 0;
  int32_t first_fabric_ = 0;
};

// Bits on every link, summed over flows. A window in which all transfers go at rates in proportion
// to their bytes lasts as long as its busiest link.
class LinkLoads {
 public:
  explicit LinkLoads(const Links& links) : links_(&links), bits_(links.all().size(), 0) {}

  void Add(int32_t from_device, int32_t to_device, int64_t bits);
  // Of the busiest link.
  double seconds() const { return seconds_; }
  double SecondsOf(int32_t link) const;
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

}  // namespace remesh
