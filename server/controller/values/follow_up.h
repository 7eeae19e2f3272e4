// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "server/controller/values/event.h"
#include "server/controller/values/records.h"

namespace remesh::server {

// What to do once a transaction is on disk. The journal queue gets it with the transaction and
// returns it when the transaction is durable. Follow-ups are plain values, so the queue need not
// know who asked for the transaction.

struct NothingFollows {};
struct CallPersisted {  // answered with nothing
  CallId call = 0;
};
// The epoch of this life of the server is on disk: commands may be sent.
struct LeadershipBegun {};
// A host's identity is on disk, and an epoch above every one that it has obeyed.
struct HostAdmitted {
  StreamId stream = 0;
  std::string host;
  uint64_t epoch = 0;
};
struct StateCreated {
  std::string name;
};
// Step and labels that UpdateState set.
struct StateUpdated {
  CallId call = 0;
  std::string name;
  v1::State update;  // uid, step and labels
};
// Generation 1 of a write_once state.
struct WriteCommitted {
  StateKey state;
};
// A call of DeleteState. `wait`: it is answered when every attached host has freed the buffers.
struct DeletionCall {
  CallId call = 0;
  bool wait = false;
};
struct StateDeleted {
  std::string name;
  std::map<StateKey, Tombstone> gone;
};
// What the journal forgot of deleted states is on disk.
struct ConfirmationsSaved {};
// The execution's first record is on disk: it may start.
struct ExecutionStored {
  std::string name;
};
enum class Save { kDecision, kSuccess, kFailure };
struct ExecutionSaved {
  std::string name;
  Save what = Save::kDecision;
};

using FollowUp = std::variant<NothingFollows, CallPersisted, LeadershipBegun, HostAdmitted,
                              StateCreated, StateUpdated, WriteCommitted, StateDeleted,
                              ConfirmationsSaved, ExecutionStored, ExecutionSaved>;

// A transaction after which something relies on hosts: the hosts' own entries must be written with
// it.
struct Reliance {
  std::set<std::string> hosts;
  std::vector<Record> records;
  FollowUp then;
};

}  // namespace remesh::server
