// SPDX-License-Identifier: Apache-2.0
#include "server/controller/removal.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/states/last_copy.h"
#include "server/controller/states/update_state.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

// An empty uid names all states of the name.
std::set<StateKey> StatesNamed(const std::string& name, const std::string& uid,
                               const ControllerView& view) {
  std::set<StateKey> named;
  if (const StateEntry* state = view.states.registry().Find(name)) {
    named.insert({name, state->uid()});
  }
  for (const HeldGeneration& owed : view.owed.OfState(name)) {
    named.insert({name, owed.manifest.state_uid()});
  }
  if (!uid.empty()) std::erase_if(named, [&](const StateKey& one) { return one.uid != uid; });
  return named;
}

std::set<std::string> HostsOf(const StateKey& state, const ControllerView& view) {
  std::set<std::string> hosts;
  const StateEntry* entry = view.states.registry().Find(state.name);
  if (entry != nullptr && entry->uid() == state.uid) {
    for (const auto& [host, part] : entry->placed->hosts) hosts.insert(host);
  }
  for (const auto& [name, execution] : view.executions.entries()) {
    if (execution.execution.resource().state_uid() != state.uid) continue;
    for (const Participant& participant : execution.execution.spec().participants) {
      hosts.insert(participant.host);
    }
  }
  for (const auto& [host, worker] : view.workers().workers()) {
    const auto held = worker.manifests.lower_bound({.state = state.name, .state_uid = state.uid});
    const bool holds = held != worker.manifests.end() && held->first.state == state.name &&
                       held->first.state_uid == state.uid;
    if (holds) hosts.insert(host);
  }
  return hosts;
}

// An execution must end before its state goes. Only one whose commit cannot be completed may be
// ended by the removal: returns its name, or "" when none runs.
absl::StatusOr<std::string> StoppedBy(const StateEntry& state, const ControllerView& view) {
  const bool reserved = view.starts.reserves(state.name());
  if (!reserved && !state.deleting && state.execution.empty()) return "";
  const ExecutionEntry* entry = view.executions.Find(state.execution);
  if (!state.deleting && entry != nullptr && entry->execution.incomplete()) return state.execution;
  return StateMoving(state.name(), state.execution);
}

// Adds those of the discarded generations that may be last copies.
void AddLastCopies(const ControllerView& view, v1::DiscardShardsResponse& response) {
  for (const v1::StateManifest& owed : response.discarded()) {
    const std::optional<std::string> why =
        WhyLastCopy(owed, view.states.registry(), view.workers());
    if (!why.has_value()) continue;
    v1::OwedShards& last = *response.add_last_copies();
    *last.mutable_manifest() = owed;
    last.set_reason(*why);
  }
}

// What the host is needed for, as a verb and its object; "": nothing.
std::string UseOf(const std::string& host, const ControllerView& view) {
  const std::vector<std::string> states = view.states.registry().NamesOn(host);
  if (!states.empty()) return absl::StrCat("holds shards of ", states.front());
  const std::string creating = view.states.CreatingOn(host);
  if (!creating.empty()) return absl::StrCat("is to hold shards of ", creating);
  for (const std::string& name : view.executions.running()) {
    if (!view.executions.Find(name)->execution.has_participant(host)) continue;
    return absl::StrCat("takes part in ", name);
  }
  return "";
}

}  // namespace

absl::Status CheckNotReplaced(const std::string& name, const std::string& uid,
                              const StateRegistry& states) {
  const StateEntry* state = states.Find(name);
  const bool same = state == nullptr || uid.empty() || state->uid() == uid;
  return same ? absl::OkStatus() : StateReplaced(*state, uid);
}

absl::StatusOr<StateRemoval> RemoveState(const std::string& name, const std::string& uid,
                                         const ControllerView& view) {
  RETURN_IF_ERROR(ParseStateName("name", name).status());
  RETURN_IF_ERROR(CheckNotReplaced(name, uid, view.states.registry()));
  const std::set<StateKey> named = StatesNamed(name, uid, view);
  if (named.empty()) {
    return StateError(absl::StatusCode::kNotFound, "NOT_FOUND", name, "does not exist");
  }
  if (view.states.creating(name)) {
    return StateError(absl::StatusCode::kAborted, "STATE_BEING_CREATED", name, "is being created");
  }
  StateRemoval removal;
  if (const StateEntry* state = view.states.registry().Find(name)) {
    ASSIGN_OR_RETURN(removal.given_up, StoppedBy(*state, view));
    removal.why = StateError(absl::StatusCode::kFailedPrecondition, "STATE_DELETED", name,
                             "was deleted before the commit was complete");
  }
  for (const StateKey& key : named) removal.gone[key] = HostsOf(key, view);
  return removal;
}

absl::StatusOr<std::string> FindKnownHost(const std::string& worker, const ControllerView& view) {
  ASSIGN_OR_RETURN(const std::string host, ParseWorkerName("name", worker));
  RETURN_IF_ERROR(CheckKnown(view.membership, host));
  return host;
}

absl::StatusOr<std::string> FindAwayHost(const std::string& worker, const ControllerView& view) {
  ASSIGN_OR_RETURN(const std::string host, ParseWorkerName("name", worker));
  RETURN_IF_ERROR(CheckAway(view.membership, host));
  return host;
}

absl::StatusOr<std::string> FindUnusedHost(const std::string& worker, const ControllerView& view) {
  ASSIGN_OR_RETURN(const std::string host, FindAwayHost(worker, view));
  const std::string use = UseOf(host, view);
  if (use.empty()) return host;
  return WorkerError(absl::StatusCode::kFailedPrecondition, "WORKER_HOLDS_SHARDS", host, use);
}

absl::Status CheckMayChangeDevices(const v1::Register& registration, const ControllerView& view) {
  const std::optional<size_t> had = view.membership.device_ids().CountOf(registration.host());
  if (had == static_cast<size_t>(registration.devices_size())) return absl::OkStatus();
  std::string use = UseOf(registration.host(), view);
  // Only a host with ids from this journal is refused for the shards that it reports. One without
  // may have come to a new journal; it keeps what it holds.
  if (use.empty() && had.has_value() && !registration.manifests().empty()) {
    use = absl::StrCat("holds shards of ", registration.manifests(0).state());
  }
  if (use.empty()) return absl::OkStatus();
  const std::string before =
      had.has_value() ? absl::StrCat(*had, " devices") : "device ids of its own";
  return WorkerError(absl::StatusCode::kFailedPrecondition, "DEVICES_CHANGED", registration.host(),
                     absl::StrCat("wants ids for ", registration.devices_size(),
                                  " devices, but had ", before, ", and ", use));
}

absl::StatusOr<Discard> FindDiscard(const v1::DiscardShardsRequest& request,
                                    const ControllerView& view) {
  ASSIGN_OR_RETURN(const std::string host, ParseWorkerName("name", request.name()));
  if (!view.workers().alive(host)) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("the worker of host ", host, " is away"),
        {.reason = "WORKER_AWAY",
         .metadata = {
             {"host", host}, {"state", request.state()}, {"state_uid", request.state_uid()}}});
  }
  ASSIGN_OR_RETURN(v1::DiscardShardsResponse response,
                   view.owed.OnHost(host, {.name = request.state(), .uid = request.state_uid()}));
  AddLastCopies(view, response);
  if (!response.last_copies().empty() && !request.even_last_copy()) {
    return LastCopyError(host, request, response);
  }
  return Discard{.host = host, .response = std::move(response)};
}

}  // namespace remesh::server
