// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/controller/controller_view.h"

namespace remesh::server {

// Whether a state or a host may go, and what goes with it. Pure.

struct StateRemoval {
  // The state of that name, and others that had it, of which workers still hold something; with the
  // hosts that may hold something of them, as far as is known here.
  std::map<StateKey, std::set<std::string>> gone;
  std::string given_up;  // execution whose commit cannot be completed; empty: none
  absl::Status why;      // it is given up
};
// INVALID_ARGUMENT, NOT_FOUND, ABORTED (STATE_BEING_CREATED), FAILED_PRECONDITION (STATE_MOVING).
absl::StatusOr<StateRemoval> RemoveState(const std::string& name, const ControllerView& view);

// The host of a known worker of that name. Errors: see CheckKnown().
absl::StatusOr<std::string> FindKnownHost(const std::string& worker, const ControllerView& view);
// The same of a worker which is away. Errors: see CheckAway().
absl::StatusOr<std::string> FindAwayHost(const std::string& worker, const ControllerView& view);
// And nothing relies on it; else FAILED_PRECONDITION (WORKER_HOLDS_SHARDS).
absl::StatusOr<std::string> FindUnusedHost(const std::string& worker, const ControllerView& view);

// A host that leaves its device ids to the server may come with another number of devices than
// before, or without ids of its own any more, while nothing relies on it; else FAILED_PRECONDITION
// (DEVICES_CHANGED).
absl::Status CheckMayChangeDevices(const v1::Register& registration, const ControllerView& view);

// What a live host owes of a state, and is to give up.
struct Discard {
  std::string host;
  v1::DiscardShardsResponse response;
};
// FAILED_PRECONDITION (WORKER_AWAY, NOT_OWED).
absl::StatusOr<Discard> FindDiscard(const v1::DiscardShardsRequest& request,
                                    const ControllerView& view);

}  // namespace remesh::server
