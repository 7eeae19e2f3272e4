// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "grpcpp/client_context.h"

namespace remesh::client {

// Cancels a streaming call whose peer says nothing for too long. A deadline of the whole call would
// end long answers too. Only time between Start() and Stop() counts: a slow reader is no silence.
class SilenceLimit {
 public:
  // `context` must outlive it.
  SilenceLimit(grpc::ClientContext& context, double seconds);
  ~SilenceLimit();
  SilenceLimit(const SilenceLimit&) = delete;
  SilenceLimit& operator=(const SilenceLimit&) = delete;

  void Start();
  void Stop();
  bool passed() const;  // the call was cancelled for it

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
