// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/controller/controller_view.h"

namespace remesh::server {

// Decides whether a state or a host may be removed, and what goes with it. Pure.

struct StateRemoval {
  // The state of this name, and earlier ones of the name of which workers still hold something,
  // each with the hosts that may hold it, as far as is known.
  std::map<StateKey, std::set<std::string>> gone;
  std::string given_up;  // execution whose commit cannot be completed; empty: none
  absl::Status why;      // why it is given up
};
// FAILED_PRECONDITION (STATE_REPLACED): another state than that of the uid has the name. An empty
// uid fits any state.
absl::Status CheckNotReplaced(const std::string& name, const std::string& uid,
                              const StateRegistry& states);
// With a uid, only what is of that state. INVALID_ARGUMENT, NOT_FOUND, ABORTED
// (STATE_BEING_CREATED, STATE_MOVING), FAILED_PRECONDITION (STATE_REPLACED).
absl::StatusOr<StateRemoval> RemoveState(const std::string& name, const std::string& uid,
                                         const ControllerView& view);

// The host of a known worker of this name. Errors: see CheckKnown().
absl::StatusOr<std::string> FindKnownHost(const std::string& worker, const ControllerView& view);
// As FindKnownHost(), for a worker that is away. Errors: see CheckAway().
absl::StatusOr<std::string> FindAwayHost(const std::string& worker, const ControllerView& view);
// As FindAwayHost(), for a worker that nothing relies on; else FAILED_PRECONDITION
// (WORKER_HOLDS_SHARDS).
absl::StatusOr<std::string> FindUnusedHost(const std::string& worker, const ControllerView& view);

// Checks that a host that leaves its device ids to the server may come with another number of
// devices than before, or without ids of its own any more. It may while nothing relies on it; else
// FAILED_PRECONDITION (DEVICES_CHANGED).
absl::Status CheckMayChangeDevices(const v1::Register& registration, const ControllerView& view);

// What an attached host owes of a state and is asked to discard, with what of it may be the last
// copy.
struct Discard {
  std::string host;
  v1::DiscardShardsResponse response;
};
// FAILED_PRECONDITION (WORKER_AWAY, NOT_OWED; LAST_COPY, unless the request says even_last_copy).
absl::StatusOr<Discard> FindDiscard(const v1::DiscardShardsRequest& request,
                                    const ControllerView& view);

}  // namespace remesh::server
