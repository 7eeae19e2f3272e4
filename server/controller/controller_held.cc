// SPDX-License-Identifier: Apache-2.0
// What workers hold, and what of it may go: see held.h for the rule.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/controller.h"
#include "server/controller/names.h"

namespace remesh {

Verdict Controller::JudgeHeld(const std::string& host, const v1::StateManifest& manifest) const {
  return Judge(host, manifest,
               {.states = states_,
                .workers = workers_,
                .tombstones = tombstones_,
                .execution = [this](const std::string& name) -> const v1::Execution* {
                  const auto move = moves_.find(name);
                  return move == moves_.end() ? nullptr : &move->second.execution.resource();
                }});
}

void Controller::DropHeld(const std::string& host, const ManifestKey& key) {
  if (WorkerEntry* worker = workers_.Find(host)) worker->manifests.erase(key);
  DropOwed(host, key);
}

void Controller::DropOwed(const std::string& host, const ManifestKey& key) {
  if (owed_.erase({key, host}) != 0) ForgetNewer(host, key);
}

// Unless another of the state's generations on the host is newer than the journal's.
void Controller::ForgetNewer(const std::string& host, const ManifestKey& key) {
  StateEntry* state = states_.Find(key.state);
  if (state == nullptr || state->uid() != key.state_uid) return;
  if (state->newer_hosts.erase(host) == 0) return;
  for (auto it = owed_.lower_bound({{.state = key.state, .state_uid = key.state_uid}, ""});
       it != owed_.end() && it->first.first.state == key.state &&
       it->first.first.state_uid == key.state_uid;
       ++it) {
    if (!it->second.newer || it->first.second != host) continue;
    state->newer_hosts.insert(host);
    break;
  }
  Touch(key.state);
}

void Controller::NoteOwed(const std::string& host, const v1::StateManifest& manifest,
                          const Verdict& verdict) {
  const auto [owed, added] = owed_.insert_or_assign(
      {KeyOf(manifest), host},
      Owed{.manifest = manifest, .reason = verdict.reason, .newer = verdict.newer});
  StateEntry* state = states_.Find(manifest.state());
  // The word of a stranger makes no state LOST.
  const auto entry = hosts_.find(host);
  const bool known = entry != hosts_.end() && entry->second.durable;
  const bool is_newer =
      known && verdict.newer && state != nullptr && state->uid() == manifest.state_uid();
  if (is_newer) {
    state->newer_hosts.insert(host);
    Touch(state->name());
  }
  if (!added && !is_newer) ForgetNewer(host, KeyOf(manifest));
  if (!added) return;
  const std::string line =
      absl::StrCat("host ", host, " keeps generation ", manifest.generation(), " of ",
                   manifest.state(), " (uid ", manifest.state_uid(), "): ", verdict.reason);
  if (is_newer) {
    Warn(absl::StrCat(line, "; the state is LOST until that is settled"));
  } else {
    AddNote(line);
  }
}

// Frees what is certainly free; the rest is owed until something more is known.
void Controller::Settle(const std::string& host, const v1::StateManifest& manifest) {
  if (!behind_.empty() || !workers_.alive(host)) return;
  const ManifestKey key = KeyOf(manifest);
  if (!workers_.Find(host)->manifests.contains(key)) return;  // went with another generation
  const Verdict verdict = JudgeHeld(host, manifest);
  if (verdict.kind == Verdict::Kind::kOwed) return NoteOwed(host, manifest, verdict);
  if (verdict.kind != Verdict::Kind::kKeep) Send(host, ToCommand(verdict.kind, manifest));
  const bool stays = verdict.kind == Verdict::Kind::kKeep || verdict.kind == Verdict::Kind::kCommit;
  if (stays) return DropOwed(host, key);
  if (verdict.kind != Verdict::Kind::kForget) return DropHeld(host, key);
  const auto& manifests = workers_.Find(host)->manifests;
  for (auto it = manifests.lower_bound({key.state, key.state_uid, 0});
       it != manifests.end() && it->first.state == key.state &&
       it->first.state_uid == key.state_uid;) {
    DropHeld(host, ManifestKey((it++)->first));
  }
}

// Looks again at what is owed of the state.
void Controller::SettleOwed(const std::string& state) {
  std::vector<std::pair<std::string, v1::StateManifest>> held;  // copies: settling changes them
  for (auto it = owed_.lower_bound({{.state = state}, ""});
       it != owed_.end() && it->first.first.state == state; ++it) {
    held.emplace_back(it->first.second, it->second.manifest);
  }
  for (const auto& [host, manifest] : held) Settle(host, manifest);
}

// Looks again at everything that has the state's name, on all hosts.
void Controller::SettleState(const std::string& state) {
  std::vector<std::pair<std::string, v1::StateManifest>> held;  // copies: settling changes them
  for (const auto& [host, worker] : workers_.workers()) {
    if (!worker.alive()) continue;
    for (auto it = worker.manifests.lower_bound({.state = state});
         it != worker.manifests.end() && it->first.state == state; ++it) {
      held.emplace_back(host, it->second);
    }
  }
  for (const auto& [host, manifest] : held) Settle(host, manifest);
}

// What a host says that it holds when it comes. Its coming may free what others hold.
void Controller::SettleHost(const std::string& host, const v1::Register& registration) {
  std::set<StateKey> gone = tombstones_.WaitingFor(host);
  for (const v1::StateManifest& manifest : registration.manifests()) {
    gone.erase({manifest.state(), manifest.state_uid()});
  }
  if (!behind_.empty()) return;  // nothing is written, nothing freed
  std::vector<Record> records = tombstones_.Confirm(host, gone);
  if (!records.empty()) Persist(std::move(records), [] {});
  for (const v1::StateManifest& manifest : registration.manifests()) Settle(host, manifest);
  for (const v1::AttemptId& attempt : registration.attempts()) SettleAttempt(host, attempt);
  for (const std::string& state : states_.NamesOn(host)) SettleOwed(state);
}

// An attempt that the worker still runs, though its execution may have ended without it.
void Controller::SettleAttempt(const std::string& host, const v1::AttemptId& attempt) {
  const auto move = moves_.find(attempt.execution());
  if (move == moves_.end()) {
    return Warn(absl::StrCat("host ", host, " runs an attempt of ", attempt.execution(),
                             ", which is not known here"));
  }
  const v1::Execution& execution = move->second.execution.resource();
  v1::StateManifest target;
  target.set_state(execution.state());
  target.set_state_uid(execution.state_uid());
  target.set_generation(execution.target_generation());
  target.set_execution(execution.name());
  if (execution.phase() == v1::Execution::FAILED || execution.phase() == v1::Execution::CANCELLED) {
    Send(host, ToCommand(Verdict::Kind::kAbort, target));
  } else if (execution.phase() == v1::Execution::SUCCEEDED) {
    Send(host, ToCommand(Verdict::Kind::kCommit, target));
  }
}

void Controller::OnForgotten(const std::string& host, const v1::Forgotten& forgotten) {
  if (!behind_.empty()) return;
  const StateKey state{.name = forgotten.state(), .uid = forgotten.state_uid()};
  std::vector<Record> records = tombstones_.Confirm(host, {state});
  if (!records.empty()) Persist(std::move(records), [] {});
}

absl::StatusOr<Reply> Controller::Answer(const v1::DiscardShardsRequest& request) {
  ASSIGN_OR_RETURN(const std::string host, ParseWorkerName("name", request.name()));
  const ErrorInfo info{
      .metadata = {{"host", host}, {"state", request.state()}, {"state_uid", request.state_uid()}}};
  if (!workers_.alive(host)) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("the worker of host ", host, " is away"),
                     {.reason = "WORKER_AWAY", .metadata = info.metadata});
  }
  v1::DiscardShardsResponse response;
  for (const auto& [key, owed] : owed_) {
    const bool named = key.second == host && key.first.state == request.state() &&
                       key.first.state_uid == request.state_uid();
    if (named) *response.add_discarded() = owed.manifest;
  }
  if (response.discarded().empty()) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("host ", host, " owes nothing of ", request.state(),
                                  " with uid \"", request.state_uid(), "\""),
                     {.reason = "NOT_OWED", .metadata = info.metadata});
  }
  for (const v1::StateManifest& manifest : response.discarded()) {
    const bool pending = manifest.phase() == v1::SHARD_PHASE_PREPARED ||
                         manifest.phase() == v1::SHARD_PHASE_VERIFIED;
    // An attempt that this journal does not know may still run: it must end first.
    Send(host, ToCommand(pending ? Verdict::Kind::kAbort : Verdict::Kind::kRetire, manifest));
    DropHeld(host, KeyOf(manifest));
    Warn(absl::StrCat("host ", host, " was told to discard generation ", manifest.generation(),
                      " of ", manifest.state(), " (uid ", manifest.state_uid(), ")"));
  }
  return response;
}

}  // namespace remesh
