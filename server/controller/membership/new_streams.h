// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>

#include "base/clock.h"
#include "server/controller/values/event.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// Streams on which nothing has been said yet. A stream is closed if its first message takes too
// long, because a stream without a worker costs memory and is of no use. Not thread-safe.
class NewStreams {
 public:
  static constexpr Timestamp kFirstMessageWithin = std::chrono::seconds(30);

  void OnOpened(StreamId stream, Timestamp now) { opened_[stream] = now; }
  // A message has come on the stream, or it has ended.
  void Remove(StreamId stream) { opened_.erase(stream); }
  // The server itself stood still for `pause`.
  void ExtendDeadlines(Timestamp pause);
  // Closes the streams that have waited too long (NOT_REGISTERED).
  void OnTick(Timestamp now, Outbox& out);

 private:
  std::map<StreamId, Timestamp> opened_;  // ids rise with time
};

}  // namespace remesh::server
