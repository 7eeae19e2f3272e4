// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "server/controller/event.h"
#include "server/controller/records.h"

namespace remesh::server {

// What follows once a transaction is on disk: handed to the journal queue with the transaction, and
// handed back when it is durable. Plain values, so that whoever asks for a transaction need not be
// known to the queue.

struct NothingFollows {};
struct CallPersisted {  // answered with nothing
  CallId call = 0;
};
// The epoch of this life of the server is written: commands may be given.
struct LeadershipBegun {};
// Who the host is, and the epoch above every one that it obeyed.
struct HostAdmitted {
  StreamId stream = 0;
  std::string host;
  uint64_t epoch = 0;
};
struct StateCreated {
  std::string name;
};
struct StateDeleted {
  CallId call = 0;
  std::string name;
  std::map<StateKey, Tombstone> gone;
};
// Its first record: it may start.
struct ExecutionStored {
  std::string name;
};
enum class Save { kDecision, kSuccess, kFailure };
struct ExecutionSaved {
  std::string name;
  Save what = Save::kDecision;
};

using FollowUp = std::variant<NothingFollows, CallPersisted, LeadershipBegun, HostAdmitted,
                              StateCreated, StateDeleted, ExecutionStored, ExecutionSaved>;

// A transaction after which something relies on hosts: their own entries are kept with it.
struct Reliance {
  std::set<std::string> hosts;
  std::vector<Record> records;
  FollowUp then;
};

}  // namespace remesh::server
