// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/values/event.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// Streams whose workers wait for the journal to have our epoch or the host's identity, with their
// messages, up to more than a worker sends before its Welcome. Not thread-safe.
class ParkedStreams {
 public:
  // Limits for one stream, after its first message.
  static constexpr size_t kMessagesMax = 1000;
  static constexpr size_t kBytesMax = size_t{1} << 20;

  struct Parked {
    v1::Register registration;  // being journaled; without a host: nothing is
    std::vector<StreamMessage> messages;
    size_t bytes = 0;  // of the messages, except the stream's first, which is long
  };

  // REQUIRES: no other stream of the host waits: see Supersede().
  void Park(StreamId stream, v1::Register registration);
  // Keeps the message and returns true if it must wait, because its stream does or because the
  // server does not lead yet. Closes a stream that sends too much (WORKER_TOO_FAST).
  bool Keep(const StreamMessage& message, bool leads, Outbox& out);
  // The host registered on a later stream: closes the one that waits. Returns whether there was one.
  bool Supersede(const std::string& host, Outbox& out);
  // Ends the wait; nullopt when the stream does not wait, or no longer waits.
  std::optional<Parked> Take(StreamId stream);
  std::vector<StreamId> streams() const;

 private:
  void Drop(std::map<StreamId, Parked>::iterator parked);

  std::map<StreamId, Parked> parked_;
  absl::flat_hash_map<std::string, StreamId> stream_of_;  // by host, of those that are registered
};

}  // namespace remesh::server
