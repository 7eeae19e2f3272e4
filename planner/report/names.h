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

// A plan speaks of canonical hosts, domains and NICs; reports use the caller's names.
class Names {
 public:
  Names(const Network& network, const Binding& binding) : network_(network), binding_(binding) {}

  std::string Host(int32_t host) const { return binding_.host_names[host]; }
  std::string Domain(int32_t domain) const { return binding_.domain_names[domain]; }
  // "NIC 2 of host a": counted among the NICs of the host that carry.
  std::string Nic(int32_t nic) const;

 private:
  const Network& network_;
  const Binding& binding_;
};

// What a certificate says, in a sentence: "domain rack-7 must receive 4 GB that none of ...".
std::string Words(const Certificate& certificate, const Binding& binding);

// What proves the lower bound of a plan, and T0 where that is more.
std::string BoundInWords(const Plan& plan, const Binding& binding);

// The order in which a person would list names: runs of digits compare by value, all else by
// character.
bool NaturalLess(std::string_view a, std::string_view b);

// Canonical hosts in the natural order of their names: "gpu-2" before "gpu-10".
std::vector<int32_t> HostsByName(const Binding& binding);

}  // namespace remesh::planner
