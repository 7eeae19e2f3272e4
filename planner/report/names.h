// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/canonical/canonical.h"
#include "planner/network/network.h"
#include "planner/plan/plan.h"

namespace remesh::planner {

// The caller's names, for reports: a plan refers to canonical hosts, domains and NICs.
class Names {
 public:
  Names(const Network& network, const Binding& binding) : network_(network), binding_(binding) {}

  std::string Host(int32_t host) const { return binding_.host_names[host]; }
  std::string Domain(int32_t domain) const { return binding_.domain_names[domain]; }
  // "NIC 2 of host a", counted among the host's NICs that carry.
  std::string Nic(int32_t nic) const;

 private:
  const Network& network_;
  const Binding& binding_;
};

// A certificate as a sentence: "domain rack-7 must receive 4 GB that none of ...".
std::string Words(const Certificate& certificate, const Binding& binding);

// The proof of a plan's lower bound, and of T0 where that is more, in words.
std::string BoundInWords(const Plan& plan, const Binding& binding);

// The proof of a plan's fabric bound, in words.
std::string FabricBoundInWords(const Plan& plan, const Binding& binding);

// Whether `a` comes before `b` in the order in which a person lists names: runs of digits compare
// by value, all else by character.
bool NaturalLess(std::string_view a, std::string_view b);

// Canonical hosts in the natural order of their names: "gpu-2" before "gpu-10".
std::vector<int32_t> HostsByName(const Binding& binding);

// The same rack by rack: hosts below no domain first, then those of each domain, in the natural
// order of the domains' paths from the root.
std::vector<int32_t> HostsByRack(const Network& network, const Binding& binding);

}  // namespace remesh::planner
