// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace remesh {

// Tasks that wait for a thread of the queue's own and begin in the order they were posted. With one
// thread they run one at a time, so that what only they touch needs no lock. Thread-safe.
class TaskQueue {
 public:
  using Task = absl::AnyInvocable<void()>;
  struct Options {
    int threads = 1;                           // >= 1
    std::function<void()> on_start = nullptr;  // on each thread, before its first task
  };
  TaskQueue() : TaskQueue(Options{}) {}
  explicit TaskQueue(Options options);
  // Runs what was posted. Not from a task.
  ~TaskQueue() { Stop(); }

  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // Never blocks on a task; a task may post. False after Stop(): the task is destroyed.
  bool Post(Task task);
  // Posted once `delay` has passed; destroyed when Stop() comes before.
  bool PostAfter(absl::Duration delay, Task task);

  // Tasks posted and not begun.
  size_t waiting() const;
  // Returns when none waits or runs. Not from a task.
  void Flush();

  enum class Rest { kRun, kDrop };
  // Refuses what comes later, runs or destroys what waits, and returns when nothing runs any more.
  // Idempotent. Not from a task.
  void Stop(Rest rest = Rest::kRun);

 private:
  void Run();
  // Until a task is due or the queue stops; false: there will be no more.
  bool Await(Task& task);
  void PostDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void()> on_start_;
  mutable absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::multimap<absl::Time, Task> later_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace remesh
