// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/write_budget.h"

#include <utility>

namespace remesh::server {

void WriteBudget::Take(size_t bytes, absl::AnyInvocable<void()> go) {
  const size_t share = ShareOf(bytes);
  {
    absl::MutexLock lock(&mutex_);
    if (!waiting_.empty() || share > free_) {
      waiting_.push_back({.bytes = share, .go = std::move(go)});
      return;
    }
    free_ -= share;
  }
  go();
}

void WriteBudget::Return(size_t bytes) {
  absl::ReleasableMutexLock lock(&mutex_);
  free_ += ShareOf(bytes);
  // Whoever goes may write and return its share at once, within go(): one call serves them all.
  if (std::exchange(serving_, true)) return;
  lock.Release();
  while (true) {
    Waiting next;
    {
      absl::MutexLock again(&mutex_);
      if (waiting_.empty() || waiting_.front().bytes > free_) {
        serving_ = false;
        return;
      }
      next = std::move(waiting_.front());
      waiting_.pop_front();
      free_ -= next.bytes;
    }
    next.go();
  }
}

size_t WriteBudget::waiting() {
  absl::MutexLock lock(&mutex_);
  return waiting_.size();
}

}  // namespace remesh::server
