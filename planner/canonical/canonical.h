// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"

namespace remesh::planner {

// A request with everything renamed by structure: devices are 0..n-1 (host by host), hosts 0..m-1,
// arrays 0..k-1, and names are gone. Requests that differ only in names, front ends, order of
// arrays or numbering of devices and hosts have equal canonical requests. (When parts of the
// structure tie, an equality may be missed; there is never a false one.) When the target order is
// free, the target lists stay in the given order: the plan, not this request, says which device
// takes whose place.
struct CanonicalRequest {
  ReshardRequest request;   // host names "", array names "", device ids canonical
  std::string fingerprint;  // "1-" + 32 hex digits: format number (2: free order), then a 128-bit
                            // hash of all of the above
};

// How the caller's names map onto the canonical ones.
struct Binding {
  std::vector<int64_t> device_ids;      // canonical device -> caller's id
  std::vector<std::string> host_names;  // canonical host -> caller's name
  std::vector<int32_t> host_indices;    // canonical host -> index in the caller's topology
  std::vector<std::string>
      domain_names;  // canonical domain (by its place in the topology) -> caller's name
  std::vector<std::string> array_names;  // canonical array -> caller's name
  std::vector<int32_t> array_indices;    // canonical array -> index in the caller's request

  friend bool operator==(const Binding&, const Binding&) = default;
};

struct CanonicalizedRequest {
  CanonicalRequest canonical;
  Binding binding;
};

// Validates (see ValidateRequest) and renames. Also returns what `budget` says once it is spent.
absl::StatusOr<CanonicalizedRequest> Canonicalize(const ReshardRequest& request,
                                                  Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
