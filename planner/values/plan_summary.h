// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/values/certificate.h"

namespace remesh::planner {

// The figures of a plan. Bytes are whole bytes, rounded up where elements are smaller than a byte.
// Seconds are computed from capacities alone.
struct PlanSummary {
  int64_t total_bytes = 0;     // all target shards, except missing boxes = kept + local + crossing
  int64_t kept_bytes = 0;      // held before by the same device in the same memory
  int64_t local_bytes = 0;     // from another device or memory of the same host
  int64_t crossing_bytes = 0;  // from a device of another host directly to a device that needs them
  int64_t relayed_bytes =
      0;  // delivered to a device that does not need them: not part of total_bytes
  int64_t bottleneck_bytes = 0;    // through the busiest NIC or uplink, in its busier direction ...
  double bottleneck_seconds = 0;   // ... over its capacity, as achieved
  double lower_bound_seconds = 0;  // LB: no plan is faster
  // T0: no plan is faster that uses no third hosts and enters every domain once. For a plan that
  // undercuts this by entering a domain again: what plans without third hosts can reach,
  // disregarding uplinks.
  double routing_bound_seconds = 0;
  double quality = 1;            // bottleneck_seconds / LB; 1 when both are 0
  double predicted_seconds = 0;  // of the schedule; for the sharing model see cost_model.h
  double schedule_seconds = 0;   // the same, as if messages cost nothing beside their bytes
  double fabric_seconds = 0;     // of the device whose fabric is busiest, in its busier direction
  // No plan is faster in which nothing enters a host that holds it: see FabricBound().
  double fabric_bound_seconds = 0;
  // schedule_seconds / max(bottleneck_seconds, fabric_seconds); 1 when both of these are 0.
  double schedule_price = 1;
  int64_t max_peak_bytes = 0;  // of the device that needs most
  int32_t windows = 0;
  int64_t messages = 0;  // ordered pairs of devices that exchange bytes, summed over windows

  friend bool operator==(const PlanSummary&, const PlanSummary&) = default;
};

// More windows than this are worth a warning: each costs hosts a hand-over, so a plan of so many
// takes far longer than its bytes unless it is very large.
inline constexpr int32_t kManyWindows = 20'000;

// All that a plan reports of itself, with the proofs of its bounds.
struct Figures {
  PlanSummary summary;
  Certificate lower_bound;    // proves summary.lower_bound_seconds
  Certificate routing_bound;  // proves summary.routing_bound_seconds, where that is more
  Certificate fabric_bound;   // proves summary.fabric_bound_seconds

  friend bool operator==(const Figures&, const Figures&) = default;
};

}  // namespace remesh::planner
