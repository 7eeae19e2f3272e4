// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/network/network.h"

namespace remesh::planner {

// The domain tree, cut at a level. Hosts are units 0 .. hosts - 1, domain d is unit hosts + d. The
// network must outlive the object.
class Units {
 public:
  explicit Units(const Network& network);

  const Network& network() const { return network_; }
  int32_t count() const { return network_.host_count() + static_cast<int32_t>(depth_.size()); }
  // Number of levels of domains that bounds consider, at most 8; deeper domains bound ingress only.
  int levels() const;
  // The domain above `host` at `level` (0 next to the root); the host itself where there is none,
  // or when level is -1.
  int32_t UnitAt(int32_t host, int level) const;
  bool IsHost(int32_t unit) const { return unit < network_.host_count(); }
  // The deepest domain above `host` that is at `level` or nearer to the root, -1: none.
  int32_t DomainAt(int32_t host, int level) const;
  int64_t Capacity(int32_t unit, bool egress) const;

 private:
  const Network& network_;
  std::vector<int> depth_;  // of domains
};

}  // namespace remesh::planner
