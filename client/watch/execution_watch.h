// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/output.h"
#include "remesh/v1/reshard.pb.h"

namespace remesh::client {

// Whether the execution is in its last phase.
bool Ended(const v1::Execution& execution);

// Whether the state lay where the execution leads.
bool MovesNothing(const v1::Execution& execution);

// Follows an execution to its last phase and returns it. Rides over restarts of the server of up to
// `server.timeout_seconds` each. Calls `on_change` with every message. DEADLINE_EXCEEDED
// (WAIT_ENDED) once this has taken `limit_seconds`; 0: no limit.
absl::StatusOr<v1::Execution> WatchToEnd(const Endpoint& server, const std::string& name,
                                         absl::FunctionRef<void(const v1::Execution&)> on_change,
                                         double limit_seconds = 0);

// OK for an execution that SUCCEEDED or still runs; otherwise the error of one that FAILED, or
// CANCELLED.
absl::Status Outcome(const v1::Execution& execution);

// A table with one row an execution.
Table ExecutionRows(const google::protobuf::RepeatedPtrField<v1::Execution>& executions);

// What the execution did and cost, one line a value. Includes its error if `with_error`.
Table ExecutionDetails(const v1::Execution& execution, bool with_error = true);

}  // namespace remesh::client
