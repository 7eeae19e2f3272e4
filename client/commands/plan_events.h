// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "client/connection.h"
#include "client/output.h"
#include "remesh/v1/cache.pb.h"

namespace remesh::client {

// Prints the events of WatchPlans, one a line (as JSON: one object an event), until the server ends
// the stream.
absl::Status PrintPlanEvents(const Endpoint& server, OutputFormat format,
                             const v1::PlanFilter& filter);

}  // namespace remesh::client
