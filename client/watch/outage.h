// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

#include "client/connection.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"

namespace remesh::client {

// How long the server of a watch has been away. A watch may be silent for long: only the time
// without a server counts. For one thread.
class Outage {
 public:
  explicit Outage(const Endpoint& server) : limit_seconds_(server.timeout_seconds) {}

  // A message has come.
  void End() { since_.reset(); }
  // Whether a watch that ended so is worth another try: the server ended it without an error, or
  // has been away for less than its timeout.
  bool Bears(const grpc::Status& status);

 private:
  const double limit_seconds_;
  std::optional<std::chrono::steady_clock::time_point> since_;  // unset: the server was there
};

// Waits before the next try, and lets the channel connect during that time: gRPC's connections make
// progress only while a thread waits in it, otherwise every 5 s.
void AwaitConnection(grpc::Channel& channel);

}  // namespace remesh::client
