// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/write_once.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace remesh::server {
namespace {

// Whether the state's generation is one that trainers write once.
bool IsWrittenOnce(const StateEntry& state) {
  return state.declared.write_once() && state.generation() == 1;
}

std::vector<std::string> TooOldAmong(const PlacedState& placed, const WorkerRegistry& workers) {
  std::vector<std::string> hosts;
  for (const auto& [host, part] : placed.hosts) {
    const WorkerEntry* worker = workers.Find(host);
    const bool attached = worker != nullptr && worker->alive();
    if (attached && !worker->registration.supports_write_once()) hosts.push_back(host);
  }
  return hosts;
}

bool HasSealed(const v1::StateManifest* manifest) {
  return manifest != nullptr && manifest->phase() == v1::SHARD_PHASE_READY;
}

}  // namespace

bool IsFixed(const StateEntry& state) {
  return IsWrittenOnce(state) && state.once_commit == OnceCommit::kDurable;
}

bool IsTooOld(const StateEntry& state, const WorkerEntry& worker) {
  return IsWrittenOnce(state) && !worker.registration.supports_write_once();
}

absl::Status CheckKnowWriteOnce(const PlacedState& placed, const WorkerRegistry& workers) {
  constexpr size_t kNamed = 16;
  const std::vector<std::string> old = TooOldAmong(placed, workers);
  if (old.empty()) return absl::OkStatus();
  const size_t named = std::min(old.size(), kNamed);
  const std::string hosts = absl::StrCat(absl::StrJoin(old.begin(), old.begin() + named, ", "),
                                         named < old.size() ? ", ..." : "");
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("state.write_once: value \"true\" needs workers that know it; "
                   "upgrade the workers of ",
                   hosts),
      {.reason = "WORKER_TOO_OLD", .metadata = {{"field", "state.write_once"}, {"hosts", hosts}}});
}

std::vector<std::string> TooOldHosts(const StateEntry& state, const WorkerRegistry& workers) {
  return IsWrittenOnce(state) ? TooOldAmong(*state.placed, workers) : std::vector<std::string>();
}

// Looks at hosts until one has not sealed, and begins the next time with that one: else each of
// many hosts that seals would look at all that sealed before.
bool IsToCommit(StateEntry& state, const WorkerRegistry& workers) {
  if (!IsWrittenOnce(state) || state.once_commit != OnceCommit::kNone) return false;
  if (state.deleting || !state.execution.empty() || !state.newer_hosts.empty()) return false;
  if (state.told_committed) return true;
  const std::string* write = nullptr;
  const auto& hosts = state.placed->hosts;
  auto host = hosts.lower_bound(state.unsealed_host);
  for (size_t looked = 0; looked < hosts.size(); ++looked, ++host) {
    if (host == hosts.end()) host = hosts.begin();
    const v1::StateManifest* manifest = LiveManifest(state, workers, host->first);
    if (!HasSealed(manifest)) {
      state.unsealed_host = host->first;
      return false;
    }
    if (write == nullptr) write = &manifest->write();
    if (*write != manifest->write()) return false;
  }
  return true;
}

bool IsHeldBack(const StateEntry& state, const WorkerRegistry& workers, const std::string& host) {
  if (!IsWrittenOnce(state) || state.once_commit == OnceCommit::kDurable) return false;
  const bool on_its_way = state.once_commit == OnceCommit::kOnItsWay;
  const bool may_be_committed = state.told_committed || !state.unattached_hosts.empty();
  if (!on_its_way && !may_be_committed) return false;
  return !HasSealed(LiveManifest(state, workers, host));
}

std::set<std::string> HeldBackHosts(const StateEntry& state, const WorkerRegistry& workers) {
  std::set<std::string> held;
  for (const auto& [host, part] : state.placed->hosts) {
    if (IsHeldBack(state, workers, host)) held.insert(host);
  }
  return held;
}

v1::AttachResponse ToCommitWrite(const StateEntry& state) {
  v1::AttachResponse message;
  v1::CommitWrite& commit = *message.mutable_commit_write();
  commit.set_state(state.name());
  commit.set_state_uid(state.uid());
  commit.set_generation(state.generation());
  return message;
}

}  // namespace remesh::server
