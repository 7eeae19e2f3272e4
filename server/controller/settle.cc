// SPDX-License-Identifier: Apache-2.0
#include "server/controller/settle.h"

#include "absl/strings/str_cat.h"

namespace remesh::server {
namespace {

// Updates the hosts that owe a generation newer than the journal knows, which makes the state LOST.
void SetNewerHosts(const ManifestKey& key, Machines& machines, Outbox& out) {
  const StateKey state{.name = key.state, .uid = key.state_uid};
  machines.states.SetNewerHosts(state, machines.owed.NewerHosts(state), out);
}

void CarryOut(const Judgement& judgement, Machines& machines, Outbox& out) {
  const std::string& host = judgement.held.host;
  const ManifestKey key = KeyOf(judgement.held.manifest);
  if (judgement.verdict.kind == Verdict::Kind::kOwed) {
    machines.owed.Note(judgement.held, judgement.verdict, machines.membership.durable(host), out);
  } else {
    if (judgement.command) machines.commands.Send(host, *judgement.command, out);
    machines.owed.Drop(host, key);
  }
  if (judgement.verdict.kind == Verdict::Kind::kForget) {
    machines.states.deletions().OnReported(host, {.name = key.state, .uid = key.state_uid});
  }
  SetNewerHosts(key, machines, out);
  Free(host, judgement.gone, machines, out);
}

// A host has come, or holds more. What hosts owe of a state can be freed once the state is held
// everywhere: until then each of many hosts would have all of it judged in vain. What is newer than
// the journal counts as soon as its host is durable.
void SettleOwed(const std::string& state, Machines& machines, Outbox& out) {
  const bool held = machines.states.IsHeldNow(state);
  Settle(held ? machines.owed.OfState(state) : machines.owed.NewerOf(state), machines, out);
}

// Settles an attempt that the worker still runs although its execution may have ended without it.
void SettleAttempt(const std::string& host, const v1::AttemptId& attempt, Machines& machines,
                   Outbox& out) {
  const ExecutionEntry* entry = machines.executions.Find(attempt.execution());
  if (entry == nullptr) {
    out.Warn(absl::StrCat("host ", host, " runs an attempt of ", attempt.execution(),
                          ", which is not known here"));
  } else if (auto command = ReconcileAttempt(entry->execution.resource())) {
    machines.commands.Send(host, *std::move(command), out);
  }
}

}  // namespace

void Settle(const std::vector<HeldGeneration>& held, Machines& machines, Outbox& out) {
  if (machines.leadership.behind()) return;
  const auto find = [&](const std::string& name) -> const v1::Execution* {
    const ExecutionEntry* entry = machines.executions.Find(name);
    return entry == nullptr ? nullptr : &entry->execution.resource();
  };
  const HeldView view{.states = machines.states.registry(),
                      .workers = machines.membership.workers(),
                      .tombstones = machines.states.tombstones(),
                      .execution = find,
                      .replaced_later = machines.leadership.replaced_later()};
  for (const Judgement& judgement : Reconcile(held, view)) CarryOut(judgement, machines, out);
}

void Free(const std::string& host, const std::vector<ManifestKey>& keys, Machines& machines,
          Outbox& out) {
  for (const ManifestKey& key : keys) {
    machines.membership.Release(host, key);
    machines.owed.Drop(host, key);
    SetNewerHosts(key, machines, out);
  }
}

std::vector<ManifestKey> OwedBy(const std::string& host, const Machines& machines) {
  std::vector<ManifestKey> owed;
  const WorkerEntry* worker = machines.membership.workers().Find(host);
  if (worker == nullptr) return owed;
  for (const auto& [key, manifest] : worker->manifests) {
    if (machines.owed.Find(host, key) != nullptr) owed.push_back(key);
  }
  return owed;
}

void FreeUnmentioned(const std::string& host, const std::vector<ManifestKey>& owed,
                     Machines& machines, Outbox& out) {
  const WorkerEntry& worker = *machines.membership.workers().Find(host);
  for (const ManifestKey& key : owed) {
    if (worker.manifests.contains(key)) continue;
    out.Note(absl::StrCat("host ", host, " came back without generation ", key.generation, " of ",
                          key.state, " (uid ", key.state_uid, "), which it kept before"));
    Free(host, {key}, machines, out);
  }
}

void SettleHost(const v1::Register& registration, Machines& machines, Outbox& out) {
  if (machines.leadership.behind()) return;  // then nothing is written or freed
  const std::string& host = registration.host();
  machines.states.deletions().OnRegistered(registration, out);
  Settle(HeldOfHost(registration), machines, out);
  for (const v1::StateManifest& manifest : registration.manifests()) {
    machines.states.NoteCommitted(manifest);
  }
  for (const v1::AttemptId& attempt : registration.attempts()) {
    SettleAttempt(host, attempt, machines, out);
  }
  for (const std::string& state : machines.states.registry().NamesOn(host)) {
    SettleOwed(state, machines, out);
  }
}

void SettleManifest(const std::string& host, const v1::StateManifest& manifest, Machines& machines,
                    Outbox& out) {
  if (!ValidateManifest(manifest).ok()) return;  // an invalid report is ignored
  if (!machines.membership.Hold(host, manifest)) return;
  machines.states.NoteCommitted(manifest);
  Settle({{.host = host, .manifest = manifest}}, machines, out);
  // Only a host that holds the current generation where it belongs can free what others owe.
  const StateEntry* state = machines.states.registry().Find(manifest.state());
  if (state != nullptr && state->uid() == manifest.state_uid() &&
      state->generation() == manifest.generation() && state->placed->hosts.contains(host)) {
    SettleOwed(manifest.state(), machines, out);
  }
  out.Touch(manifest.state());
}

}  // namespace remesh::server
