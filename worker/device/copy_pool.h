// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace remesh::worker {

// A few threads that copy, pack and hash on behalf of one owning thread. The pool starts work in
// the order in which it was given: when enough bytes of it wait to be worth waking a thread, or at
// the end of the next Drain(). The `done` of each work runs on the owning thread, inside Drain(),
// exactly once: with OK if the work ran, with CANCELLED if it did not. Only the owning thread calls
// the pool.
class CopyPool {
 public:
  using Work = absl::AnyInvocable<void()>;
  using Notify = absl::AnyInvocable<void() const>;
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // `on_finished` runs on any thread when Drain() has something to do again; it must not block.
  // REQUIRES: threads > 0.
  CopyPool(int threads, Notify on_finished);
  // Waits for the running work. Drops the rest, and every `done` that has not run yet.
  ~CopyPool();

  CopyPool(const CopyPool&) = delete;
  CopyPool& operator=(const CopyPool&) = delete;

  // `bytes`: what the work reads, as a measure of how long it takes.
  void Run(int64_t bytes, Work work, Done done);

  // Ends with CANCELLED the work that no thread has begun.
  void CancelQueued();

  // Runs the `done` of all work that has ended; returns whether there was any. A `done` may give
  // new work. Then starts what waits.
  bool Drain();

  // Amount of work given whose `done` has not begun.
  int pending() const { return pending_; }

 private:
  struct Job {
    int64_t bytes = 0;
    Work work;
    Done done;
    absl::Status status;
  };

  void RunThread();
  // The first work that waits; none if none does, or the pool stops.
  std::optional<Job> TakeQueued();
  // Whether a thread that rests must get up.
  bool MustWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || (started_ && !queued_.empty());
  }

  int pending_ = 0;  // used by the owning thread alone
  const Notify on_finished_;
  absl::Mutex mutex_;
  std::deque<Job> queued_ ABSL_GUARDED_BY(mutex_);
  int64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;  // all that is queued
  std::deque<Job> ended_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace remesh::worker
