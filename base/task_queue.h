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

// A queue of tasks that begin in the order they were posted, on threads that the queue owns. With
// one thread they run one at a time, so that data that only they touch needs no lock. Thread-safe.
class TaskQueue {
 public:
  using Task = absl::AnyInvocable<void()>;
  struct Options {
    int threads = 1;                           // >= 1
    std::function<void()> on_start = nullptr;  // called on each thread, before its first task
  };
  TaskQueue() : TaskQueue(Options{}) {}
  explicit TaskQueue(Options options);
  // Runs the tasks posted so far. Must not be called from a task.
  ~TaskQueue() { Stop(); }

  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // Never blocks on a task; a task may post. After Stop() it destroys the task and returns false.
  bool Post(Task task);
  // Posts the task once `delay` has passed; destroys it when Stop() comes first.
  bool PostAfter(absl::Duration delay, Task task);

  // Number of tasks posted and not begun.
  size_t waiting() const;
  // Returns when no task waits or runs. Must not be called from a task.
  void Flush();

  enum class Rest { kRun, kDrop };
  // Refuses later tasks, runs or destroys the waiting ones, and returns when no task runs any more.
  // Idempotent. Must not be called from a task.
  void Stop(Rest rest = Rest::kRun);

 private:
  void Run();
  // Waits until a task is due or the queue stops. False: no more tasks will come.
  bool Await(Task& task);
  void PostDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void()> on_start_;
  mutable absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::multimap<absl::Time, Task> later_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: the threads use all members above
};

}  // namespace remesh
