// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/task_queue.h"
#include "server/planning/fair_queue.h"

namespace remesh::server {

// Runs tasks on a fixed number of threads, in the order of a FairQueue, and background tasks on one
// more, which yields to all others: one at a time, each begins only while no task waits.
// Thread-safe.
class ThreadPool {
 public:
  using Task = FairQueue::Task;
  struct Options {
    int threads = 1;            // >= 1
    int execution_threads = 0;  // beside those, for executions alone
    size_t waiting_max = 0;     // executions, and questions
    int nice = 0;  // of `threads`: below the rest of the process by so much; see nice(2)
    // Whether callers share: none runs tasks on all of `threads` while there is more than one, nor
    // takes more than a quarter of the places to wait.
    bool fair = false;
    int running_max_of_caller = 0;  // where fair; 0: all threads but one
  };

  explicit ThreadPool(Options options);
  ThreadPool(int threads, size_t waiting_max)
      : ThreadPool(Options{.threads = threads, .waiting_max = waiting_max}) {}
  ~ThreadPool();

  // False when too many wait already, or after Stop(): the task is dropped.
  bool Post(const Turn& turn, Task task);
  bool Post(Task task) { return Post({}, std::move(task)); }
  bool PostBackground(Task task);

  bool stopped() const;

  // Drops what waits, waits for what runs. Idempotent; not to be called from a task.
  void Stop();

 private:
  // Runs the task that is next, if one may run now: posted whenever one more may.
  void RunNext(bool executions_only);
  // Once no task waits.
  void RunInBackground(Task task);
  void PostNext(bool execution);

  const size_t waiting_max_;
  mutable absl::Mutex mutex_;
  FairQueue tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Last: they use all of the above.
  std::unique_ptr<TaskQueue> execution_threads_;                   // null without any
  std::unique_ptr<TaskQueue> background_ ABSL_GUARDED_BY(mutex_);  // begun by its first task
  TaskQueue threads_;
};

// UNAVAILABLE (SHUTTING_DOWN).
absl::Status ShuttingDown();
// What is left to say when `pool` took no task: RESOURCE_EXHAUSTED (PLANNER_BUSY) or
// ShuttingDown().
absl::Status NotTaken(const ThreadPool& pool);

}  // namespace remesh::server
