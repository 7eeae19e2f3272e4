// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace remesh::planner {

// What proves that no plan is faster than bits / 8 / capacity seconds. Checkable from the request
// alone:
// - kIngress: `members` is one domain (or host), and needs `bits` bits that none of its living
// devices holds.
// - kEgress: every holder of these `bits` bits lies in `members`, and each bit is needed by a host
// that lies in none of the members that hold it.
// - kRelay (proves T0 only): `bits` bits must leave members where only hosts that hold or need a
// bit handle it, every domain that needs it and does not hold it is entered once by it, and no
// other domain ever. So below each place of the tree one copy goes to each child in need, less one
// where nobody below holds it. Of these copies the first is the members' to send when all hosts
// that may handle it in the children that hold it lie in members, the others when all such hosts
// below the place do. `capacity` is the sum of the members' capacities in that direction, bytes per
// second.
struct Certificate {
  enum class Kind : int8_t { kNone, kIngress, kEgress, kRelay };
  Kind kind = Kind::kNone;
  std::vector<int32_t> hosts;    // members that are hosts, canonical, rising
  std::vector<int32_t> domains;  // members that are domains
  int64_t bits = 0;
  int64_t capacity = 1;

  std::string DebugString() const;
  friend bool operator==(const Certificate&, const Certificate&) = default;
};

}  // namespace remesh::planner
