// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace remesh::planner {

// Proof that no plan is faster than bits / 8 / capacity seconds. It can be checked from the request
// alone:
// - kIngress: `members` is one domain (or host) that needs `bits` bits which none of its living
//   devices holds.
// - kEgress: every holder of these `bits` bits lies in `members`, and each bit is needed by a host
//   that lies in none of the members that hold it.
// - kRelay (proves T0 only): `bits` bits must leave `members` in every plan in which only hosts
//   that hold or need a bit handle it, and in which the bit enters each domain that needs it and
//   does not hold it once, and no other domain. In such a plan, below each node of the tree, one
//   copy goes to each child that needs the bit, less one where no host below the node holds it. The
//   members must send the first of these copies if all hosts that may handle the bit in the
//   children that hold it lie in `members`, and the other copies if all such hosts below the node
//   do.
// A member that is a device stands alone: kIngress and kEgress then speak of devices in place of
// domains. Two more kinds, of devices of one host, prove what plans need in which nothing enters a
// host that holds it already:
// - kLocalIngress: `members` is one device that needs `bits` bits which it does not hold and another
//   device of its host does.
// - kLocalEgress: each of these `bits` bits is held in the host by members only, and needed there by
//   a device that does not hold it.
// `capacity` is the sum of the members' capacities in that direction, in bytes per second; a device
// has its fabric and the NIC that it uses, of the local kinds its fabric alone.
struct Certificate {
  enum class Kind : int8_t { kNone, kIngress, kEgress, kRelay, kLocalIngress, kLocalEgress };
  Kind kind = Kind::kNone;
  std::vector<int32_t> hosts;    // members that are hosts, canonical, rising
  std::vector<int32_t> domains;  // members that are domains
  std::vector<int32_t> devices;  // members that are devices
  int64_t bits = 0;
  int64_t capacity = 1;

  std::string DebugString() const;
  friend bool operator==(const Certificate&, const Certificate&) = default;
};

}  // namespace remesh::planner
