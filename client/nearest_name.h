// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "client/connection.h"

namespace remesh::client {

// Adds to the server's NOT_FOUND the name of an existing state, execution, plan or worker that is
// nearest to the one asked for, or else the command that lists them. Asks the server for that;
// leaves every other error, and one about which the server does not answer, as it is.
absl::Status WithNearestName(const absl::Status& status, const Endpoint& server);

}  // namespace remesh::client
