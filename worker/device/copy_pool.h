// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace remesh::worker {

// A few threads that copy, pack and hash on behalf of one owning thread. Work runs on the pool in
// the order it was given; its `done` runs on the owning thread, inside Drain(), exactly once: OK
// when the work ran, CANCELLED when it did not. Only the owning thread calls it.
class CopyPool {
 public:
  using Work = absl::AnyInvocable<void()>;
  using Notify = absl::AnyInvocable<void() const>;
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // `on_finished` runs on any thread whenever Drain() has something to do; it must not block.
  // REQUIRES: threads > 0.
  CopyPool(int threads, Notify on_finished);
  // Waits for the work that runs; the rest, and every `done` not yet run, is dropped.
  ~CopyPool();

  CopyPool(const CopyPool&) = delete;
  CopyPool& operator=(const CopyPool&) = delete;

  void Run(Work work, Done done);

  // Work that no thread has begun ends CANCELLED.
  void CancelQueued();

  // Runs the `done` of what has ended; returns whether there was any. A `done` may give new work.
  bool Drain();

  // Work given whose `done` has not begun.
  int pending() const { return pending_; }

 private:
  struct Job {
    Work work;
    Done done;
    absl::Status status;
  };

  void RunThread();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queued_.empty();
  }

  int pending_ = 0;  // the owning thread's
  const Notify on_finished_;
  absl::Mutex mutex_;
  std::deque<Job> queued_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> ended_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace remesh::worker
