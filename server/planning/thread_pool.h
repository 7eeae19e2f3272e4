// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/task_queue.h"
#include "server/planning/fair_queue.h"

namespace remesh::server {

// Runs tasks on a fixed number of threads, in the order of a FairQueue. Runs background tasks on
// one more thread of lower priority, one at a time, in the order of a FairQueue of their own; each
// begins only while no other task waits. Thread-safe.
class ThreadPool {
 public:
  using Task = FairQueue::Task;
  struct Options {
    int threads = 1;            // >= 1
    int execution_threads = 0;  // in addition, only for executions
    size_t waiting_max = 0;     // each, for executions and for questions
    // How far the priority of `threads` is below the rest of the process; see nice(2).
    int nice = 0;
    // Whether callers share: no caller runs tasks on all of `threads` while there are several, or
    // takes more than a quarter of the places to wait.
    bool fair = false;
    int running_max_of_caller = 0;  // if fair; 0: all threads but one
  };

  explicit ThreadPool(Options options);
  ThreadPool(int threads, size_t waiting_max)
      : ThreadPool(Options{.threads = threads, .waiting_max = waiting_max}) {}
  ~ThreadPool();

  // False when too many tasks wait already, or after Stop(); the task is dropped.
  bool Post(const Turn& turn, Task task);
  bool Post(Task task) { return Post({}, std::move(task)); }
  bool PostBackground(const std::string& caller, Task task);
  bool PostBackground(Task task) { return PostBackground("", std::move(task)); }

  bool stopped() const;

  // Drops waiting tasks and waits for running ones. Idempotent; must not be called from a task.
  void Stop();

 private:
  // Runs the next task, if one may run now. Posted whenever one more may run.
  void RunNext(bool executions_only);
  // Runs the next background task once no other task waits.
  void RunInBackground();
  void PostNext(bool execution);

  mutable absl::Mutex mutex_;
  FairQueue tasks_ ABSL_GUARDED_BY(mutex_);
  FairQueue background_tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Last: their tasks use all of the above.
  std::unique_ptr<TaskQueue> execution_threads_;                   // null: none
  std::unique_ptr<TaskQueue> background_ ABSL_GUARDED_BY(mutex_);  // null until its first task
  TaskQueue threads_;
};

// UNAVAILABLE (SHUTTING_DOWN).
absl::Status ShuttingDown();
// The error to return when `pool` took no task: RESOURCE_EXHAUSTED (PLANNER_BUSY) or
// ShuttingDown().
absl::Status NotTaken(const ThreadPool& pool);

}  // namespace remesh::server
