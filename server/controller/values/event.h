// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/empty.pb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/state.pb.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/values/controller_options.h"
#include "server/controller/values/placed.h"
#include "server/controller/values/saved_world.h"

namespace remesh::server {

// The time of an event: `steady` for waiting, `wall` for people.
struct Moment {
  Timestamp steady{0};
  absl::Time wall;
};

using CallId = uint64_t;    // of one RPC that waits for a reply
using WatchId = uint64_t;   // of one Watch stream
using StreamId = uint64_t;  // of one Attach stream; never reused

// A CreateState request whose spec is already placed, or does not fit the workers that are
// attached.
struct CreateState {
  v1::CreateStateRequest request;
  std::shared_ptr<const PlacedState> placed;  // null: see `misfit`
  absl::Status misfit = {};
};

using Request =
    std::variant<CreateState, v1::GetStateRequest, v1::ListStatesRequest, v1::UpdateStateRequest,
                 v1::DeleteStateRequest, v1::StartExecutionRequest, v1::GetExecutionRequest,
                 v1::ListExecutionsRequest, v1::CancelExecutionRequest, v1::ResolveExecutionRequest,
                 v1::ListWorkersRequest, v1::ForgetWorkerRequest, v1::ResetWorkerRequest,
                 v1::DrainWorkerRequest, v1::UndrainWorkerRequest, v1::DiscardShardsRequest,
                 SaveWorlds>;
using Reply =
    std::variant<google::protobuf::Empty, v1::State, v1::ListStatesResponse, v1::Execution,
                 v1::ListExecutionsResponse, v1::ListWorkersResponse, v1::DiscardShardsResponse,
                 v1::UpdateStateResponse, v1::DeleteStateResponse>;

// A caller asks; exactly one ReplyTo follows.
struct Call {
  CallId id = 0;
  Request request;
};

// The caller of an open call has gone; its reply is dropped. What it asked for goes on.
struct CallerLeft {
  CallId call = 0;
};

// A caller wants the value of a state or an execution now and after every change.
struct WatchStarted {
  WatchId id = 0;
  std::string name;
};
struct WatchEnded {
  WatchId id = 0;
};

// A worker has opened a stream, and must register on it soon.
struct StreamOpened {
  StreamId stream = 0;
};
struct StreamMessage {
  StreamId stream = 0;
  v1::AttachRequest message;
  bool vouched = false;  // a certificate names the same host as Register does
};
struct StreamEnded {
  StreamId stream = 0;
};

// Answer to StartPlanning.
struct Planned {
  uint64_t id = 0;
  absl::StatusOr<PlannedExecution> move;
};

// Answer to Persist: everything up to `sequence` is on disk. `full`: the transaction used the room
// that is reserved for decisions; nothing else may be written until there is room again.
struct Persisted {
  uint64_t sequence = 0;
  bool full = false;
};

// The journal's files were deleted or replaced: nothing can be made durable any more.
struct JournalLost {
  absl::Status why;
};

// An operator changed settings. ReplyTo follows: Empty, or the reason why nothing changes.
struct Reconfigure {
  CallId call = 0;
  std::shared_ptr<const LiveOptions> options;
};

// The server is about to end: no execution starts any more, and those that wait for devices fail.
// If `at_once`, every execution that has not been decided fails too. See ServerStops().
struct Drain {
  bool at_once = false;
};

// Time has passed. Comes at least a few times per lost_after.
struct Tick {};

using Event = std::variant<Call, CallerLeft, WatchStarted, WatchEnded, StreamOpened, StreamMessage,
                           StreamEnded, Planned, Persisted, JournalLost, Reconfigure, Drain, Tick>;

}  // namespace remesh::server
