// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace remesh {

// Runs tasks on a fixed number of threads, oldest first. Thread-safe.
class ThreadPool {
 public:
  using Task = absl::AnyInvocable<void()>;

  // REQUIRES: threads >= 1.
  ThreadPool(int threads, size_t waiting_max);
  ~ThreadPool();

  // False when `waiting_max` tasks wait already, or after Stop(): the task is dropped.
  bool Post(Task task);

  // Drops what waits, waits for what runs. Idempotent; not to be called from a task.
  void Stop();

 private:
  void Run();

  const size_t waiting_max_;
  absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace remesh
