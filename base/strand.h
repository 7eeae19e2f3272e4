// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "base/task_queue.h"

namespace remesh {

// Runs tasks one at a time, in the order they were posted, on a thread of its own: what only its
// tasks touch needs no lock. A TaskQueue that cannot have more threads.
class Strand {
 public:
  using Task = TaskQueue::Task;

  // Thread-safe, never blocks on a task; a task may post. After Stop() the task is dropped and
  // false comes back.
  bool Post(Task task) { return queue_.Post(std::move(task)); }

  // Runs what was posted, drops what comes later, joins the thread; so does the end of the strand.
  // Idempotent; not from a task.
  void Stop() { queue_.Stop(); }

 private:
  TaskQueue queue_;
};

}  // namespace remesh
