// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "server/controller/states/state_registry.h"

namespace remesh::server {

// FAILED_PRECONDITION (STATE_NOT_READY): names the hosts because of which the state is not READY,
// their writes if they differ, and what helps. REQUIRES: it is neither READY nor MOVING.
absl::Status NotReady(const StateEntry& state, const WorkerRegistry& workers);

}  // namespace remesh::server
