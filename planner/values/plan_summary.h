// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/values/certificate.h"

namespace remesh::planner {

// Numbers of a plan. Bytes are of whole elements, rounded up where elements are below a byte.
// Seconds come from capacities alone.
// One a figure: it has more than 12 fields.
struct PlanSummary {
  int64_t total_bytes = 0;  // all target shards but what is missing = kept + local + crossing
  int64_t kept_bytes = 0;   // held by the same device in the same memory before
  int64_t local_bytes = 0;  // from another device or memory of the same host
  int64_t crossing_bytes =
      0;  // from a device of another host, straight to a device that needs them
  int64_t relayed_bytes =
      0;  // brought to a device that does not need them itself: not in total_bytes
  int64_t bottleneck_bytes = 0;    // through the busiest NIC or uplink, in its busier direction ...
  double bottleneck_seconds = 0;   // ... over its capacity, as achieved
  double lower_bound_seconds = 0;  // LB: no plan is faster
  // T0: no plan without third hosts that enters every domain once is faster; of a plan that
  // undercuts this by entering a domain again, what plans without third hosts can reach, uplinks
  // aside.
  double routing_bound_seconds = 0;
  double quality = 1;            // bottleneck_seconds / LB; 1 when both are 0
  double predicted_seconds = 0;  // of the schedule; sharing model: cost_model.h
  double schedule_price = 1;     // predicted_seconds / bottleneck_seconds; 1 when the latter is 0
  int64_t max_peak_bytes = 0;    // over devices
  int32_t windows = 0;
  int64_t messages = 0;  // messages: ordered device pairs at work, summed over windows

  friend bool operator==(const PlanSummary&, const PlanSummary&) = default;
};

// What a plan says of itself, with the proofs of its two bounds.
struct Figures {
  PlanSummary summary;
  Certificate lower_bound;    // of summary.lower_bound_seconds
  Certificate routing_bound;  // of summary.routing_bound_seconds, where that is more

  friend bool operator==(const Figures&, const Figures&) = default;
};

}  // namespace remesh::planner
