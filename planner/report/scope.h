// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "planner/canonical/canonical.h"

namespace remesh::planner {

// The size of a request, for a title: what it moves, and between how many devices and hosts.
struct Scope {
  struct Sides {
    int64_t source = 0;
    int64_t target = 0;
    int64_t both = 0;

    friend bool operator==(const Sides&, const Sides&) = default;
  };
  int64_t arrays = 0;
  int64_t bytes = 0;  // of one copy of all arrays
  Sides devices;      // that a device list of the request names
  Sides hosts;        // of these devices

  friend bool operator==(const Scope&, const Scope&) = default;
};

Scope ScopeOf(const CanonicalRequest& request);

// "llama-405b: 1,024 → 1,016 devices"; without a label, "3 arrays, 12 GB: 1,024 → 1,016 devices".
std::string TitleOf(const Scope& scope, std::string_view label);

}  // namespace remesh::planner
