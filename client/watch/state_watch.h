// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/connection.h"
#include "remesh/v1/state.pb.h"

namespace remesh::client {

// Calls `on_change` with the state as it is and after each change, until that fails, the state is
// gone or the server ends the watch. Rides over restarts of the server of up to
// `server.timeout_seconds` each, of which it tells on stderr; not over a server that was never
// there.
absl::Status WatchState(const Endpoint& server, const std::string& name,
                        absl::FunctionRef<absl::Status(const v1::State&)> on_change);

}  // namespace remesh::client
