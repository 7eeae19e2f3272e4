// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace remesh {

// Runs tasks on a fixed number of threads, oldest first, and background tasks on one more, which
// yields to all others: one at a time, each begins only while no task waits. Thread-safe.
class ThreadPool {
 public:
  using Task = absl::AnyInvocable<void()>;

  // REQUIRES: threads >= 1.
  ThreadPool(int threads, size_t waiting_max);
  ~ThreadPool();

  // False when `waiting_max` tasks wait already, or after Stop(): the task is dropped.
  bool Post(Task task);
  bool PostBackground(Task task);

  bool stopped() const;

  // Drops what waits, waits for what runs. Idempotent; not to be called from a task.
  void Stop();

 private:
  void Run();
  void RunBackground();
  bool HasTurn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t waiting_max_;
  mutable absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::deque<Task> background_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // of the tasks
  std::thread background_thread_;     // begun by the first background task; last: uses all above
};

}  // namespace remesh
