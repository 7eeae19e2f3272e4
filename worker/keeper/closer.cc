// SPDX-License-Identifier: Apache-2.0
#include "worker/keeper/closer.h"

#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace remesh::worker {

Closer::Closer() {
  std::thread([shared = shared_] { Run(shared); }).detach();
}

Closer::~Closer() {
  constexpr absl::Duration kPatience = absl::Seconds(1);
  const auto closed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
    return shared_->waiting == 0;
  };
  absl::MutexLock lock(&shared_->mutex);
  shared_->ends = true;
  shared_->mutex.AwaitWithTimeout(absl::Condition(&closed), kPatience);
}

void Closer::Close(Fd fd) {
  if (!fd) return;
  absl::MutexLock lock(&shared_->mutex);
  shared_->queue.push_back(std::move(fd));
  ++shared_->waiting;
}

size_t Closer::waiting() const {
  absl::MutexLock lock(&shared_->mutex);
  return shared_->waiting;
}

void Closer::Run(const std::shared_ptr<Shared>& shared) {
  const auto has_work = [&shared]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared->mutex) {
    return !shared->queue.empty() || shared->ends;
  };
  while (true) {
    Fd next;
    {
      absl::MutexLock lock(&shared->mutex, absl::Condition(&has_work));
      if (shared->queue.empty()) return;
      next = std::move(shared->queue.front());
      shared->queue.pop_front();
    }
    next.Reset();
    absl::MutexLock lock(&shared->mutex);
    --shared->waiting;
  }
}

}  // namespace remesh::worker
