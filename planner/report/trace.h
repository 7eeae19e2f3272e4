// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"

namespace remesh::planner {

struct TraceOptions {
  int64_t events_max = 200'000;  // about; above it windows, then NICs, are combined
  int64_t arrows_max = 2'000;    // if there would be more, none are drawn
};

// The predicted schedule as Chrome's Trace Event JSON, for Perfetto and chrome://tracing. There is
// one process for each host, in the order of the caller's topology, with one thread for each direction of each NIC and one for moves
// inside the host; an event for each window at work there, as long as its bytes take at the link's
// capacity; arrows from sender to receiver; and a counter of bytes in flight. Times are as in
// links.h, stretched to end at the predicted time. Incomplete when the budget is spent.
//
// REQUIRES: `plan` came from `request`, `binding` from its canonicalization.
std::string ChromeTrace(const CanonicalRequest& request, const Plan& plan, const Binding& binding,
                        const TraceOptions& options = {}, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
