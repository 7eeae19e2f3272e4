// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "grpcpp/client_context.h"

namespace remesh::client {

// Cancels a streaming call whose peer sends nothing for too long. A deadline for the whole call
// would also end long answers. Only time between Start() and Stop() counts, so a slow reader is not
// taken for a silent peer.
class SilenceLimit {
 public:
  // `context` must outlive this.
  SilenceLimit(grpc::ClientContext& context, double seconds);
  ~SilenceLimit();
  SilenceLimit(const SilenceLimit&) = delete;
  SilenceLimit& operator=(const SilenceLimit&) = delete;

  void Start();
  void Stop();
  bool passed() const;  // whether this has cancelled the call

 private:
  void Watch();

  grpc::ClientContext& context_;
  const std::chrono::nanoseconds limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::chrono::steady_clock::time_point> since_;  // while waiting
  bool passed_ = false;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace remesh::client
