// SPDX-License-Identifier: Apache-2.0
#include "client/watch/silence_limit.h"

namespace remesh::client {

SilenceLimit::SilenceLimit(grpc::ClientContext& context, double seconds)
    : context_(context),
      limit_(std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(seconds))),
      thread_([this] { Watch(); }) {}

SilenceLimit::~SilenceLimit() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void SilenceLimit::Start() {
  {
    const std::lock_guard lock(mutex_);
    since_ = std::chrono::steady_clock::now();
  }
  changed_.notify_one();
}

void SilenceLimit::Stop() {
  const std::lock_guard lock(mutex_);
  since_.reset();
}

bool SilenceLimit::passed() const {
  const std::lock_guard lock(mutex_);
  return passed_;
}

void SilenceLimit::Watch() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (!since_.has_value()) {
      changed_.wait(lock);
    } else if (std::chrono::steady_clock::now() < *since_ + limit_) {
      changed_.wait_until(lock, *since_ + limit_);
    } else {
      passed_ = true;
      context_.TryCancel();
      return;
    }
  }
}

}  // namespace remesh::client
