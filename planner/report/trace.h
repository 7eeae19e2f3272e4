// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"

namespace remesh::planner {

struct TraceOptions {
  int64_t events_max = 200'000;  // about; windows, then NICs, are taken together above it
  int64_t arrows_max = 2'000;    // none are drawn when there would be more
};

// The predicted schedule as Chrome's Trace Event JSON, for Perfetto and chrome://tracing: one
// process a host, one thread for each direction of each NIC and one for the moves inside the host;
// an event for each window at work there, as long as its bytes take at the link's capacity; arrows
// from sender to receiver; a counter of bytes in flight. Times as in links.h, stretched to end
// when predicted.
//
// REQUIRES: `plan` came from `request`, `binding` from its canonicalization.
std::string ChromeTrace(const CanonicalRequest& request, const Plan& plan, const Binding& binding,
                        const TraceOptions& options = {});

}  // namespace remesh::planner
