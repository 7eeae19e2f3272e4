// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "server/controller/states/state_registry.h"

namespace remesh::server {

// What UpdateState may do to a state. An update is journaled before it counts and before the call
// is answered. While one is on its way the state is not READY, and once a commit is on its way none
// begins; so what is READY has the step of the last update that was answered OK, and keeps it.

// INVALID_ARGUMENT: a field is missing or out of range.
absl::Status CheckUpdateRequest(const v1::UpdateStateRequest& request);

// FAILED_PRECONDITION (STATE_REPLACED): the state's uid is not `uid`, the request's.
absl::Status StateReplaced(const StateEntry& state, const std::string& uid);

// Whether the state has the step and the labels already, or gets them by the last update that is on
// its way.
bool SetsNothingNew(const v1::UpdateStateRequest& request, const StateEntry& state);

// FAILED_PRECONDITION (STATE_REPLACED): the state has another uid. FAILED_PRECONDITION
// (STATE_COMMITTED): it is past BUILDING, and the request would change it. ABORTED
// (STATE_BEING_DELETED). UNAVAILABLE (STATE_LOST): hosts are away without which nothing says
// whether it is.
absl::Status CheckUpdate(const v1::UpdateStateRequest& request, const StateEntry& state,
                         const WorkerRegistry& workers);

// Uid, step and labels, as the journal keeps them.
v1::State ToUpdate(const v1::UpdateStateRequest& request);
// Makes them those of the state.
void TakeUpdate(const v1::State& update, StateEntry& state);

}  // namespace remesh::server
