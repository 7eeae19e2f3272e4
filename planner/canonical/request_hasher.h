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

// Names the hash below: raised when what is hashed, or how, changes. Requests whose target order is
// free have a number of their own: under 1 the order that was chosen was hashed, under 2 it is the
// order that was given.
constexpr const char* RequestFormat(const PlanOptions& options) {
  return options.free_target_order ? "2" : "1";
}

// What identifies a placement in one request: shared layouts and lists are looked at once.
using PlacementKey = std::tuple<const Layout*, const DeviceList*, MemoryKind>;
inline PlacementKey KeyOf(const Placement& p) {
  return {p.layout.get(), p.devices.get(), p.memory_kind};
}

// Hashes all that a canonical request says: options and topology, then its arrays in turn.
// `named[id]`: whether a list has the device.
class RequestHasher {
 public:
  // An array's placements by their numbers; -1: not known yet.
  struct Numbers {
    int64_t source = -1;
    int64_t target = -1;
  };

  RequestHasher(const ReshardRequest& request, const std::vector<bool>& named);

  // `numbers` is shared by arrays of equal placements. `hash_of` is HashWithoutDevices(), kept.
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
