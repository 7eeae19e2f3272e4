// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "planner/canonical/fingerprint.h"
#include "planner/values/request.h"

namespace remesh::planner {

// The format number of the hash below, raised when its input or the algorithm changes. Requests
// whose target order is free have a number of their own: format 1 hashed the chosen order, format 2
// hashes the given one.
constexpr const char* RequestFormat(const PlanOptions& options) {
  return options.free_target_order ? "2" : "1";
}

// Identifies a placement within one request by pointers, so that shared layouts and lists are
// hashed once.
using PlacementKey = std::tuple<const Layout*, const DeviceList*, MemoryKind>;
inline PlacementKey KeyOf(const Placement& p) {
  return {p.layout.get(), p.devices.get(), p.memory_kind};
}

// Hashes the whole content of a canonical request: options and topology, then its arrays in turn.
// `named[id]`: whether a list names the device.
class RequestHasher {
 public:
  // The numbers of an array's placements; -1: not known yet.
  struct Numbers {
    int64_t source = -1;
    int64_t target = -1;
  };

  RequestHasher(const ReshardRequest& request, const std::vector<bool>& named);

  // Arrays with equal placements share `numbers`. `hash_of` returns HashWithoutDevices(), memoized.
  void AddArray(const ArraySpec& array, absl::FunctionRef<Hash128(const Layout&)> hash_of,
                Numbers& numbers);

  Hash128 Digest() const { return hasher_.Digest(); }

 private:
  void AddOptions(const ReshardRequest& request);
  void AddTopology(const Topology& topology, const std::vector<bool>& named);
  int64_t AddPlacement(const Placement& placement,
                       absl::FunctionRef<Hash128(const Layout&)> hash_of);

  Hasher hasher_;
  absl::flat_hash_map<PlacementKey, int64_t> number_of_;
};

}  // namespace remesh::planner
