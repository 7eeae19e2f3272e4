// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/values/topology.h"
#include "remesh/v1/plan.pb.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/values/event.h"

namespace remesh::server {

// The actions that the controller asks for. They are carried out in order; their results come back
// as later events.

// Messages to one stream arrive in the order of these actions.
struct SendToWorker {
  StreamId stream = 0;
  v1::AttachResponse message;
};

// Commands that are made when they can be written, because those to many streams would together
// take much memory.
struct LaterCommands {
  size_t bytes = 0;  // that they take once made, roughly
  // May be called from any thread. Refers to nothing that changes.
  std::function<std::vector<v1::AttachResponse>()> make;
};
// Takes its place among the messages to the stream.
struct SendLater {
  StreamId stream = 0;
  LaterCommands commands;
};

// Ends an Attach stream. Drops messages that were sent before but are still in its queue.
struct CloseStream {
  StreamId stream = 0;
  absl::Status status;
};

// An entry of the journal. No bytes: the key is removed.
struct Record {
  std::string key;
  std::optional<std::string> bytes;
};

// Writes all records or none; then the event Persisted follows.
struct Persist {
  uint64_t sequence = 0;  // rises by one
  std::vector<Record> records;
};

struct ReplyTo {
  CallId call = 0;
  absl::StatusOr<Reply> reply;
};

// The present value of a watched State or Execution, shared by all its watchers. An older value
// that the watcher has not read may be dropped.
struct Notify {
  WatchId watch = 0;
  std::shared_ptr<const Reply> value;
};
struct EndWatch {
  WatchId watch = 0;
  absl::Status status;
};

// Plans a move of a state; then the event Planned follows. Exactly one of `targets` and `plan` is
// set.
struct StartPlanning {
  uint64_t id = 0;
  std::shared_ptr<const PlacedState> source;
  std::shared_ptr<const v1::Targets> targets;  // null: by the name of a plan
  std::string plan;
  v1::PlanOptions options;
  bool keep = false;       // the plan stays in the cache until ReleasePlan
  std::string state = "";  // the state that moves
  CallId question = 0;     // the only call that wants to know, if no execution is to come of it
};
struct ReleasePlan {
  std::string plan;
};

// The topology that an empty topology in a request stands for has changed.
struct TopologyChanged {
  std::vector<planner::Host> hosts = {};                               // new or changed
  std::vector<std::string> gone = {};                                  // hosts
  std::optional<std::vector<planner::Domain>> domains = std::nullopt;  // all, if the rules changed
};

// For metrics.
struct ExecutionEnded {
  v1::Execution::Phase phase = v1::Execution::PHASE_UNSPECIFIED;
  double seconds = 0;
  // Doubles, as metrics are: sums of values that hosts claim cannot overflow.
  double bytes_moved = 0;  // between hosts
  double copied_bytes = 0;
  // Of the transfers of a move that SUCCEEDED: what its plan predicted, and what they took. 0: it
  // moved nothing, or did not succeed.
  double predicted_seconds = 0;
  double transfer_seconds = 0;
};

// For the log; one line.
struct Note {
  std::string line;
  bool warning = false;
};

using Action =
    std::variant<SendToWorker, SendLater, CloseStream, Persist, ReplyTo, Notify, EndWatch,
                 StartPlanning, ReleasePlan, TopologyChanged, ExecutionEnded, Note>;
using Actions = std::vector<Action>;

}  // namespace remesh::server
