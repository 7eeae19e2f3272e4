// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/network.h"
#include "planner/plan_draft.h"

namespace remesh {

// What a plan puts on the network, and how long that takes. Resources are, each in both directions:
// NICs, uplinks of domains, and the fabric of every device (which carries the moves inside a host;
// a copy in place uses none).
//
// Sharing model: windows follow one another, and within a window all transfers run at rates in
// proportion to their bytes, so that a window lasts as long as its busiest resource: max over r of
// bytes(r) / capacity(r). Slices being equal, only the windows in which the pipeline fills and
// drains differ; one cycle of rounds is computed once for each set of stages at work.
struct Cost {
  double bottleneck_seconds = 0;  // busiest NIC or uplink, over the whole plan
  int64_t bottleneck_bytes = 0;
  std::string bottleneck;     // its name in words
  double fabric_seconds = 0;  // busiest device inside a host
  double predicted_seconds = 0;
};

// Seconds of the busiest NIC or uplink: the bottleneck alone, before windows are known.
double BottleneckSeconds(const PlanDraft& draft, const Network& network);

Cost Estimate(const PlanDraft& draft, const Network& network);

}  // namespace remesh
