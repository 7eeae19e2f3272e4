// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "remesh/v1/state.pb.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/membership/worker_registry.h"
#include "server/controller/states/host_writes.h"
#include "server/controller/states/replicas.h"
#include "server/controller/values/placed.h"

namespace remesh::server {

// How far generation 1 of a write_once state is committed; see write_once.h.
enum class OnceCommit : int8_t { kNone, kOnItsWay, kDurable };

// UpdateStates on their way to the disk, and what the last of them sets.
struct PendingUpdates {
  int count = 0;
  v1::State last;  // step and labels
};

// A state: its declaration, and the point in its life. The phase is not stored: it follows from
// what the workers hold.
struct StateEntry {
  v1::State declared;  // name, uid, generation, step, labels, create_time; no spec
  std::shared_ptr<const PlacedState> placed;
  std::string request_id;                     // of the CreateState; may be empty
  std::string request_digest;                 // of the CreateState
  std::string execution;                      // the one that runs; empty: none
  std::shared_ptr<const PlacedState> target;  // of the execution; null: none, or no longer known
  bool deleting = false;
  OnceCommit once_commit = OnceCommit::kNone;
  bool told_committed = false;  // a host was told of the commit, maybe by a later journal
  // Of a write_once state without a commit in the journal that the server started with: hosts that
  // have not attached since. One of them may have been told of a commit.
  std::set<std::string> unattached_hosts;
  std::string unsealed_host = "";         // where IsToCommit() begins to look
  mutable std::string missing_host = "";  // where IsHeldNow() begins to look
  PendingUpdates updates;
  std::set<std::string> newer_hosts;  // hosts with a newer generation than the journal knows
  std::shared_ptr<Replicas> replicas = std::make_shared<Replicas>();  // remembers answers only

  const std::string& name() const { return declared.name(); }
  const std::string& uid() const { return declared.uid(); }
  int64_t generation() const { return declared.generation(); }
};

// The registry of all states, by name. Not thread-safe.
class StateRegistry {
 public:
  StateEntry* Find(const std::string& name);
  const StateEntry* Find(const std::string& name) const;
  StateEntry& Add(StateEntry entry);
  void Remove(const std::string& name);
  // From now on the state, one of these, lies there.
  void Place(StateEntry& state, std::shared_ptr<const PlacedState> placed);
  const std::map<std::string, StateEntry>& states() const { return states_; }
  // Those with shards on the host, sorted. Looks at no others.
  std::vector<std::string> NamesOn(const std::string& host) const;

 private:
  void AddToHosts(const StateEntry& state);
  void RemoveFromHosts(const StateEntry& state);

  std::map<std::string, StateEntry> states_;
  absl::flat_hash_map<std::string, std::set<std::string>> on_host_;  // names
};

// An error about a state, with the state's name in message and metadata.
// ABORTED (STATE_MOVING; execution). `execution`: "" while it is only planned.
absl::Status StateMoving(const std::string& state, const std::string& execution);
absl::Status StateError(absl::StatusCode code, std::string_view reason, const std::string& state,
                        std::string_view what);

// INVALID_ARGUMENT: `name` is not the name of a state. NOT_FOUND.
absl::StatusOr<const StateEntry*> FindState(std::string_view field, const std::string& name,
                                            const StateRegistry& states);

// The state's phase, by which the server decides: MOVING while an execution runs; LOST when a host
// is away, or back without what was committed there; READY when every host has sealed everything,
// all name the same write, and what must be on disk for that is there; otherwise BUILDING. Ignores
// the hosts in `spared`. Never DEGRADED, for which everything is decided as for LOST.
v1::State::Phase PhaseOf(const StateEntry& state, const WorkerRegistry& workers,
                         const std::set<std::string>& spared = {});

// The phase that callers see: as PhaseOf(), but DEGRADED where a LOST state would be READY without
// the lost hosts, and the other hosts hold every element. Decides nothing.
v1::State::Phase ReportedPhase(const StateEntry& state, const WorkerRegistry& workers);

// Whether the generation was readable once, so that it must exist on its hosts: trainers fill
// generation 1, and a host that lost it can be filled again, unless it is written once and
// committed.
bool IsCommitted(const StateEntry& state);

// What the host holds of the state's generation; null: nothing that counts.
const v1::StateManifest* LiveManifest(const StateEntry& state, const WorkerRegistry& workers,
                                      const std::string& host);

// The hosts that make the state LOST: away, or back without what was committed there.
std::set<std::string> LostHostsOf(const StateEntry& state, const WorkerRegistry& workers);

// The writes of the attached hosts that hold shards of the state's generation.
HostWrites WritesOf(const StateEntry& state, const WorkerRegistry& workers);

// Whether every host of the state's layout is attached and holds its shards of the generation,
// sealed or not. Hosts that only sent data do not count, because they hold nothing of it.
bool HeldEverywhere(const StateEntry& state, int64_t generation, const WorkerRegistry& workers);

// The same of the state's generation now. Looks at hosts until one lacks it, and begins the next time
// with that one.
bool IsHeldNow(const StateEntry& state, const WorkerRegistry& workers);

// The resource as callers see it: all but the spec, and including it.
v1::State ToBasicProto(const StateEntry& state, const WorkerRegistry& workers);
v1::State ToProto(const StateEntry& state, const WorkerRegistry& workers);

// What the server sends every host about the state's generation, without the host's shards.
v1::Assignment AssignmentHead(const StateEntry& state);

}  // namespace remesh::server
