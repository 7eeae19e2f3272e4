// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "remesh/v1/state.pb.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/placed.h"
#include "server/controller/worker_registry.h"

namespace remesh {

// A state: what was declared, and where it is in its life. Its phase is not stored: it follows from
// what the workers hold.
struct StateEntry {
  v1::State declared;  // name, uid, generation, step, labels, create_time; no spec
  std::shared_ptr<const PlacedState> placed;
  std::string request_id;      // of the CreateState; may be empty
  std::string request_digest;  // of the CreateState
  uint64_t planning = 0;       // id of the planning that reserves the state; 0: none
  std::string execution;       // that runs; empty: none
  bool deleting = false;
  std::set<std::string> newer_hosts;  // that hold a newer generation than the journal knows

  const std::string& name() const { return declared.name(); }
  const std::string& uid() const { return declared.uid(); }
  int64_t generation() const { return declared.generation(); }
  bool busy() const { return planning != 0 || !execution.empty() || deleting; }
};

// The registry of all states, by name. Not thread-safe.
class StateRegistry {
 public:
  StateEntry* Find(const std::string& name);
  const StateEntry* Find(const std::string& name) const;
  StateEntry& Add(StateEntry entry);
  void Remove(const std::string& name) { states_.erase(name); }
  const std::map<std::string, StateEntry>& states() const { return states_; }
  std::vector<std::string> NamesOn(const std::string& host) const;

 private:
  std::map<std::string, StateEntry> states_;
};

// The state's phase: MOVING while an execution runs; LOST when a host is away, or back without what
// was committed there; READY when every host has sealed everything; else BUILDING. The hosts in
// `spared` do not count.
v1::State::Phase PhaseOf(const StateEntry& state, const WorkerRegistry& workers,
                         const std::set<std::string>& spared = {});

// The resource as callers see it, spec included.
v1::State ToProto(const StateEntry& state, const WorkerRegistry& workers);

// What `host` holds of the state at its generation. REQUIRES: it holds something.
v1::Assignment AssignmentOf(const StateEntry& state, const std::string& host);

}  // namespace remesh
