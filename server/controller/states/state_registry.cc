// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/state_registry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/states/write_once.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

// Whether the host has not kept what was committed there. Where it must not be written again, what
// is unsealed is not what it was.
bool LostOn(const StateEntry& state, const WorkerRegistry& workers, const std::string& host) {
  if (!workers.alive(host)) return true;
  if (!IsCommitted(state)) return false;
  const v1::StateManifest* held = LiveManifest(state, workers, host);
  return held == nullptr || (IsFixed(state) && held->phase() != v1::SHARD_PHASE_READY);
}

// Whether something that is not on disk yet keeps the state from being READY.
bool AwaitsJournal(const StateEntry& state) {
  if (IsCommitted(state)) return false;
  return state.declared.write_once() || state.updates.count > 0;
}

}  // namespace

bool IsCommitted(const StateEntry& state) {
  return state.generation() > 1 || state.once_commit == OnceCommit::kDurable;
}

// Ignores what an earlier state of the same name left there, and what an execution prepared that is
// not known here.
const v1::StateManifest* LiveManifest(const StateEntry& state, const WorkerRegistry& workers,
                                      const std::string& host) {
  const WorkerEntry* worker = workers.Find(host);
  if (worker == nullptr || !worker->alive() || IsTooOld(state, *worker)) return nullptr;
  const v1::StateManifest* held = worker->Manifest(state.name(), state.uid(), state.generation());
  return held == nullptr || IsPending(*held) ? nullptr : held;
}

StateEntry* StateRegistry::Find(const std::string& name) {
  auto found = states_.find(name);
  return found == states_.end() ? nullptr : &found->second;
}

const StateEntry* StateRegistry::Find(const std::string& name) const {
  auto found = states_.find(name);
  return found == states_.end() ? nullptr : &found->second;
}

StateEntry& StateRegistry::Add(StateEntry entry) {
  std::string name = entry.name();
  Remove(name);
  StateEntry& added = states_[std::move(name)] = std::move(entry);
  AddToHosts(added);
  return added;
}

void StateRegistry::Remove(const std::string& name) {
  const auto found = states_.find(name);
  if (found == states_.end()) return;
  RemoveFromHosts(found->second);
  states_.erase(found);
}

void StateRegistry::Place(StateEntry& state, std::shared_ptr<const PlacedState> placed) {
  RemoveFromHosts(state);
  state.placed = std::move(placed);
  AddToHosts(state);
}

void StateRegistry::AddToHosts(const StateEntry& state) {
  for (const auto& [host, part] : state.placed->hosts) on_host_[host].insert(state.name());
}

void StateRegistry::RemoveFromHosts(const StateEntry& state) {
  for (const auto& [host, part] : state.placed->hosts) {
    const auto names = on_host_.find(host);
    names->second.erase(state.name());
    if (names->second.empty()) on_host_.erase(names);
  }
}

std::vector<std::string> StateRegistry::NamesOn(const std::string& host) const {
  const auto names = on_host_.find(host);
  if (names == on_host_.end()) return {};
  return {names->second.begin(), names->second.end()};
}

absl::Status StateMoving(const std::string& state, const std::string& execution) {
  const bool known = !execution.empty();
  ErrorInfo info{.reason = "STATE_MOVING", .metadata = {{"state", state}}};
  if (known) info.metadata["execution"] = execution;
  return MakeError(
      absl::StatusCode::kAborted,
      absl::StrCat(state, known ? " is being moved by " : " is about to move", execution), info);
}

absl::Status StateError(absl::StatusCode code, std::string_view reason, const std::string& state,
                        std::string_view what) {
  return MakeError(code, absl::StrCat(state, " ", std::string(what)),
                   {.reason = std::string(reason), .metadata = {{"state", state}}});
}

absl::StatusOr<const StateEntry*> FindState(std::string_view field, const std::string& name,
                                            const StateRegistry& states) {
  RETURN_IF_ERROR(ParseStateName(field, name).status());
  if (const StateEntry* state = states.Find(name)) return state;
  return StateError(absl::StatusCode::kNotFound, "NOT_FOUND", name, "does not exist");
}

v1::State::Phase PhaseOf(const StateEntry& state, const WorkerRegistry& workers,
                         const std::set<std::string>& spared) {
  if (!state.execution.empty()) return v1::State::MOVING;
  if (!state.newer_hosts.empty()) return v1::State::LOST;
  bool ready = true;
  const std::string* write = nullptr;
  for (const auto& [host, part] : state.placed->hosts) {
    if (spared.contains(host)) continue;
    if (LostOn(state, workers, host)) return v1::State::LOST;
    const v1::StateManifest* manifest = LiveManifest(state, workers, host);
    ready = ready && manifest != nullptr && manifest->phase() == v1::SHARD_PHASE_READY;
    if (!ready || IsFixed(state)) continue;  // it may still be LOST
    if (write == nullptr) write = &manifest->write();
    ready = *write == manifest->write();
  }
  return ready && !AwaitsJournal(state) ? v1::State::READY : v1::State::BUILDING;
}

v1::State::Phase ReportedPhase(const StateEntry& state, const WorkerRegistry& workers) {
  const v1::State::Phase phase = PhaseOf(state, workers);
  if (phase != v1::State::LOST || !state.newer_hosts.empty()) return phase;
  const std::set<std::string> lost = LostHostsOf(state, workers);
  const bool rest_is_ready = PhaseOf(state, workers, lost) == v1::State::READY;
  const bool degraded = rest_is_ready && state.replicas->CoverWithout(state.placed, lost);
  return degraded ? v1::State::DEGRADED : v1::State::LOST;
}

std::set<std::string> LostHostsOf(const StateEntry& state, const WorkerRegistry& workers) {
  std::set<std::string> lost;
  for (const auto& [host, part] : state.placed->hosts) {
    if (LostOn(state, workers, host)) lost.insert(host);
  }
  return lost;
}

HostWrites WritesOf(const StateEntry& state, const WorkerRegistry& workers) {
  HostWrites writes;
  for (const auto& [host, part] : state.placed->hosts) {
    const v1::StateManifest* manifest = LiveManifest(state, workers, host);
    if (manifest != nullptr) writes[host] = manifest->write();
  }
  return writes;
}

namespace {

bool HeldOn(const std::string& host, const StateEntry& state, int64_t generation,
            const WorkerRegistry& workers) {
  const WorkerEntry* worker = workers.Find(host);
  if (worker == nullptr || !worker->alive()) return false;
  const v1::StateManifest* held = worker->Manifest(state.name(), state.uid(), generation);
  return held != nullptr && !IsPending(*held);
}

}  // namespace

bool HeldEverywhere(const StateEntry& state, int64_t generation, const WorkerRegistry& workers) {
  const auto& hosts = state.placed->hosts;
  return std::all_of(hosts.begin(), hosts.end(), [&](const auto& host) {
    return HeldOn(host.first, state, generation, workers);
  });
}

bool IsHeldNow(const StateEntry& state, const WorkerRegistry& workers) {
  const auto& hosts = state.placed->hosts;
  auto host = hosts.lower_bound(state.missing_host);
  for (size_t looked = 0; looked < hosts.size(); ++looked, ++host) {
    if (host == hosts.end()) host = hosts.begin();
    if (HeldOn(host->first, state, state.generation(), workers)) continue;
    state.missing_host = host->first;
    return false;
  }
  return true;
}

namespace {

void AddWrites(const HostWrites& writes, v1::State& message) {
  if (!Agree(writes)) {
    for (const v1::HostWrite& one : SomeOf(writes)) *message.add_host_writes() = one;
  } else if (!writes.empty()) {
    message.set_write(writes.begin()->second);
  }
}

}  // namespace

v1::State ToProto(const StateEntry& state, const WorkerRegistry& workers) {
  v1::State message = ToBasicProto(state, workers);
  *message.mutable_spec() = state.placed->spec;
  return message;
}

v1::State ToBasicProto(const StateEntry& state, const WorkerRegistry& workers) {
  v1::State message = state.declared;
  message.set_phase(ReportedPhase(state, workers));
  message.set_execution(state.execution);
  message.set_total_shards(state.placed->total_shards);
  message.set_total_bytes(state.placed->total_bytes);
  int64_t sealed = 0;
  for (const auto& [host, part] : state.placed->hosts) {
    const v1::StateManifest* manifest = LiveManifest(state, workers, host);
    const auto shards = static_cast<int64_t>(part.shards.size());
    const int64_t of_host =
        manifest == nullptr ? 0 : std::clamp<int64_t>(manifest->sealed_shards(), 0, shards);
    sealed += of_host;
    if (LostOn(state, workers, host)) {
      message.add_lost_hosts(host);
    } else if (of_host < shards) {
      message.add_unsealed_hosts(host);
    }
  }
  message.set_sealed_shards(sealed);
  AddWrites(WritesOf(state, workers), message);
  *message.mutable_newer_hosts() = {state.newer_hosts.begin(), state.newer_hosts.end()};
  return message;
}

v1::Assignment AssignmentHead(const StateEntry& state) {
  v1::Assignment head;
  head.set_state(state.name());
  head.set_state_uid(state.uid());
  head.set_generation(state.generation());
  head.set_committed(IsCommitted(state));
  head.set_write_once(state.declared.write_once());
  head.set_hosts(static_cast<int32_t>(state.placed->hosts.size()));
  return head;
}

}  // namespace remesh::server
