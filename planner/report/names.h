// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "planner/canonical.h"
#include "planner/network.h"

namespace remesh {

// A plan speaks of canonical hosts, domains, devices and arrays; reports use the caller's names.
class Names {
 public:
  Names(const Network& network, const Binding& binding) : network_(network), binding_(binding) {}

  std::string Host(int32_t host) const { return binding_.host_names[host]; }
  // Domains lose their names in a canonical request; their hosts tell them apart: "domain of a, b".
  std::string Domain(int32_t domain) const;
  // "NIC 2 of a": counted among the NICs of the host that carry.
  std::string Nic(int32_t nic) const;

  // A sentence of the planner's ("host 3 needs 12 bytes") with the caller's names for "host N",
  // "domain N", "device N" and "array N".
  std::string InCallersWords(const std::string& sentence) const;

 private:
  std::string NameOf(const std::string& kind, int64_t index) const;

  const Network& network_;
  const Binding& binding_;
};

}  // namespace remesh
