// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "remesh/v1/worker.pb.h"
#include "server/controller/event.h"
#include "server/controller/outbox.h"

namespace remesh::server {

// Streams whose workers wait for the journal: until it has our epoch, or has who they are. What
// they say meanwhile is kept, unless it is more than a worker says before its welcome. Not thread-safe.
class ParkedStreams {
 public:
  // Of a stream, after its first message.
  static constexpr size_t kMessagesMax = 1000;
  static constexpr size_t kBytesMax = size_t{1} << 20;

  struct Parked {
    v1::Register registration;  // that is being journaled; without a host: nothing is
    std::vector<StreamMessage> messages;
    size_t bytes = 0;  // of them, but for the stream's first, which is long
  };

  void Park(StreamId stream, v1::Register registration);
  // Whether the message waits: because its stream does, or because nobody leads yet. A stream that
  // says too much is closed (WORKER_TOO_FAST).
  bool Keep(const StreamMessage& message, bool leads, Outbox& out);
  // The host registered by a later stream: closes those that wait; whether there were any.
  bool Supersede(const std::string& host, Outbox& out);
  // Ends the wait; nothing when the stream does not wait (any more).
  std::optional<Parked> Take(StreamId stream);
  std::vector<StreamId> streams() const;

 private:
  std::map<StreamId, Parked> parked_;
};

}  // namespace remesh::server
