// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/values/action.h"
#include "server/controller/values/event.h"

namespace remesh::server {

// The other end of an Attach stream. Called on the core's strand; must not block. What an event
// sends to many streams is sent in several turns of the strand.
class WorkerSink {
 public:
  virtual ~WorkerSink() = default;
  // The stream may begin; called once, first or just after Close(). False: it has ended already,
  // and the core forgets it.
  virtual bool Begin(StreamId stream) = 0;
  virtual void Send(v1::AttachResponse message) = 0;
  // Makes the commands when they can be written, in their place among the messages.
  virtual void SendLater(LaterCommands commands) = 0;
  virtual void Close(const absl::Status& status) = 0;
};

// The other end of a Watch stream. Called on the core's strand; must not block.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  virtual void Offer(std::shared_ptr<const Reply> value) = 0;
  virtual void End(const absl::Status& status) = 0;
  // Whether no caller waits for a value any more.
  virtual bool Ended() = 0;
};

}  // namespace remesh::server
