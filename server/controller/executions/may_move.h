// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "remesh/v1/reshard.pb.h"
#include "server/controller/membership/membership.h"
#include "server/controller/states/state_registry.h"
#include "server/controller/values/event.h"

namespace remesh::server {

// Whether a state may move now, and where to.

// ABORTED (STATE_MOVING): it moves, a planning has `reserved` it, or it is being deleted.
// FAILED_PRECONDITION (GENERATION_MISMATCH).
absl::Status CheckFree(const StateEntry& state, bool reserved, int64_t expected_generation);

// INVALID_ARGUMENT: an array that the targets do not name stays where it is, and nothing may stay on
// a drained host.
absl::Status CheckKept(const v1::StartExecutionRequest& request, const StateEntry& state,
                       const Membership& membership);

// FAILED_PRECONDITION (STATE_NOT_READY) unless the state is READY without the hosts `spared`.
absl::Status CheckReady(const StateEntry& state, const std::set<std::string>& spared,
                        const WorkerRegistry& workers);

// FAILED_PRECONDITION (STATE_NOT_READY) unless the loss of hosts is all that the state may suffer
// from.
absl::Status CheckCanLose(const StateEntry& state, const WorkerRegistry& workers);

// Whether the hosts of the move can carry it out, and may hold its target, apart from its size.
absl::Status CheckHosts(const StateEntry& state, const PlannedExecution& move,
                        const Membership& membership, bool encrypts_data);

}  // namespace remesh::server
