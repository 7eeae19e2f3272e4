// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/update_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/states/state_labels.h"

namespace remesh::server {
namespace {

bool Equal(const Labels& a, const Labels& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& label) {
           const auto found = b.find(label.first);
           return found != b.end() && found->second == label.second;
         });
}

absl::Status Committed(const StateEntry& state, v1::State::Phase phase) {
  const std::string name = v1::State::Phase_Name(phase);
  const std::string generation = absl::StrCat(state.generation());
  const bool can_unseal = state.generation() == 1 && !state.declared.write_once();
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat(state.name(), " is ", name, ", generation ", generation,
                   ": step and labels can be changed only while generation 1 is BUILDING",
                   can_unseal ? "; run remeshctl unseal first" : ""),
      {.reason = "STATE_COMMITTED",
       .metadata = {{"state", state.name()}, {"phase", name}, {"generation", generation}}});
}

}  // namespace

absl::Status StateReplaced(const StateEntry& state, const std::string& uid) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("uid: value \"", uid, "\" is not that of ", state.name(), ", which is ",
                   state.uid(), ": another state took the name"),
      {.reason = "STATE_REPLACED",
       .metadata = {
           {"field", "uid"}, {"value", uid}, {"state", state.name()}, {"uid", state.uid()}}});
}

absl::Status CheckUpdateRequest(const v1::UpdateStateRequest& request) {
  if (request.uid().empty()) {
    return InvalidField("uid", "", "must be the state's uid, as CreateState returned it");
  }
  RETURN_IF_ERROR(CheckStep("", request.step()));
  RETURN_IF_ERROR(CheckLabels("", request.labels()));
  return CheckRequestId(request.request_id());
}

bool SetsNothingNew(const v1::UpdateStateRequest& request, const StateEntry& state) {
  const v1::State& now = state.updates.count > 0 ? state.updates.last : state.declared;
  return request.step() == now.step() && Equal(request.labels(), now.labels());
}

absl::Status CheckUpdate(const v1::UpdateStateRequest& request, const StateEntry& state,
                         const WorkerRegistry& workers) {
  if (request.uid() != state.uid()) return StateReplaced(state, request.uid());
  if (state.deleting) {
    return StateError(absl::StatusCode::kAborted, "STATE_BEING_DELETED", state.name(),
                      "is being deleted");
  }
  if (SetsNothingNew(request, state)) return absl::OkStatus();
  const v1::State::Phase phase = PhaseOf(state, workers);
  const bool past = IsCommitted(state) || !state.newer_hosts.empty();
  if (past || state.once_commit != OnceCommit::kNone) return Committed(state, phase);
  // A write_once state says itself whether it is committed, whoever is away.
  if (phase == v1::State::BUILDING || state.declared.write_once()) return absl::OkStatus();
  if (phase != v1::State::LOST) return Committed(state, phase);
  return StateError(absl::StatusCode::kUnavailable, "STATE_LOST", state.name(),
                    "is LOST: whether it is past BUILDING is known when its hosts are back");
}

v1::State ToUpdate(const v1::UpdateStateRequest& request) {
  v1::State update;
  update.set_uid(request.uid());
  update.set_step(request.step());
  *update.mutable_labels() = request.labels();
  return update;
}

void TakeUpdate(const v1::State& update, StateEntry& state) {
  state.declared.set_step(update.step());
  *state.declared.mutable_labels() = update.labels();
}

}  // namespace remesh::server
