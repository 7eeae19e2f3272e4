// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/canonical/fingerprint.h"
#include "planner/values/topology.h"

namespace remesh::planner {

// A topology renumbered by structure: hosts in AHU order of the domain tree, so that trees that
// differ only in names and in the order of equal parts become equal.
struct CanonicalTree {
  Topology topology;                // host names "", domain names "0", "1" ..., device ids 0, 1 ...
  std::vector<int64_t> device_ids;  // canonical device -> caller's id
  std::vector<std::string> host_names;    // canonical host -> caller's name
  std::vector<int32_t> host_indices;      // canonical host -> index in the caller's topology
  std::vector<std::string> domain_names;  // canonical domain -> caller's name
};

// Orders the hosts of `topology` that have a device with used(id), and the domains above them.
// `label` returns everything that distinguishes one device from another besides its place: devices
// with equal labels are interchangeable. Devices that share a NIC may swap, NICs with equally many
// devices may swap with all their devices, and hosts and domains under one parent may swap. Ties
// (parts with equal labels) keep the caller's order.
CanonicalTree CanonicalizeTree(const Topology& topology, const std::function<bool(int64_t)>& used,
                               const std::function<Hash128(int64_t)>& label);

}  // namespace remesh::planner
