// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "remesh/v1/reshard.pb.h"

namespace remesh::client {

// The reason of an error that says nothing about how an execution ended: remeshctl exits with a
// code of its own.
inline constexpr char kOutcomeUnknown[] = "OUTCOME_UNKNOWN";

struct WaitOptions {
  bool exists = false;       // whether the execution is known to exist
  bool prints_name = false;  // to stderr, before the wait
  double limit_seconds = 0;  // of the wait; 0: none
};

// WatchToEnd() for a user, who sees how far it is. When the wait ends before the execution, by a
// signal, by its limit or because the server is gone, says that it may still run. OUTCOME_UNKNOWN
// then has the code of the error that ended the wait; a server that knows of no such execution, or
// refuses to tell, gives that error itself.
absl::StatusOr<v1::Execution> WaitForEnd(const Endpoint& server, const std::string& name,
                                         const WaitOptions& options);

}  // namespace remesh::client
