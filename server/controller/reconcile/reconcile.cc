// SPDX-License-Identifier: Apache-2.0
#include "server/controller/reconcile/reconcile.h"

#include <set>
#include <utility>

namespace remesh::server {
namespace {

using Kind = Verdict::Kind;

// All generations of the state that the host holds.
std::vector<ManifestKey> KeysOf(const WorkerEntry& worker, const ManifestKey& key) {
  std::vector<ManifestKey> keys;
  for (auto it = worker.manifests.lower_bound({key.state, key.state_uid, 0});
       it != worker.manifests.end() && it->first.state == key.state &&
       it->first.state_uid == key.state_uid;
       ++it) {
    keys.push_back(it->first);
  }
  return keys;
}

Judgement MakeJudgement(const HeldGeneration& held, Verdict verdict, const WorkerEntry& worker) {
  Judgement judgement{.held = held, .verdict = std::move(verdict)};
  const Kind kind = judgement.verdict.kind;
  if (kind == Kind::kKeep || kind == Kind::kOwed) return judgement;
  judgement.command = ToCommand(kind, held.manifest);
  if (kind == Kind::kCommit) return judgement;
  const ManifestKey key = KeyOf(held.manifest);
  judgement.gone = kind == Kind::kForget ? KeysOf(worker, key) : std::vector<ManifestKey>{key};
  return judgement;
}

}  // namespace

std::vector<Judgement> Reconcile(const std::vector<HeldGeneration>& held, const HeldView& view) {
  std::vector<Judgement> judgements;
  std::set<std::pair<std::string, ManifestKey>> gone;
  for (const HeldGeneration& generation : held) {
    const WorkerEntry* worker = view.workers.Find(generation.host);
    const ManifestKey key = KeyOf(generation.manifest);
    if (worker == nullptr || !worker->alive() || !worker->manifests.contains(key)) continue;
    if (gone.contains({generation.host, key})) continue;
    judgements.push_back(
        MakeJudgement(generation, Judge(generation.host, generation.manifest, view), *worker));
    for (const ManifestKey& freed : judgements.back().gone) gone.insert({generation.host, freed});
  }
  return judgements;
}

std::vector<HeldGeneration> HeldOfState(const std::string& state, const WorkerRegistry& workers) {
  std::vector<HeldGeneration> held;
  for (const auto& [host, worker] : workers.workers()) {
    if (!worker.alive()) continue;
    for (auto it = worker.manifests.lower_bound({.state = state});
         it != worker.manifests.end() && it->first.state == state; ++it) {
      held.push_back({.host = host, .manifest = it->second});
    }
  }
  return held;
}

std::vector<HeldGeneration> HeldOfHost(const v1::Register& registration) {
  std::vector<HeldGeneration> held;
  for (const v1::StateManifest& manifest : registration.manifests()) {
    held.push_back({.host = registration.host(), .manifest = manifest});
  }
  return held;
}

std::optional<v1::AttachResponse> ReconcileAttempt(const v1::Execution& execution) {
  v1::StateManifest target;
  target.set_state(execution.state());
  target.set_state_uid(execution.state_uid());
  target.set_generation(execution.target_generation());
  target.set_execution(execution.name());
  switch (execution.phase()) {
    case v1::Execution::FAILED:
    case v1::Execution::CANCELLED:
      return ToCommand(Kind::kAbort, target);
    case v1::Execution::SUCCEEDED:
      return ToCommand(Kind::kCommit, target);
    default:
      return std::nullopt;
  }
}

v1::AttachResponse ToDiscard(const v1::StateManifest& manifest) {
  // An attempt that this journal does not know may still run, and must end first.
  return ToCommand(IsPending(manifest) ? Kind::kAbort : Kind::kRetire, manifest);
}

}  // namespace remesh::server
