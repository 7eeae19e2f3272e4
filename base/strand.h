// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "base/task_queue.h"

namespace remesh {

// Runs tasks one at a time, in the order they were posted, on a thread of its own. Data that only
// its tasks touch needs no lock. A TaskQueue with exactly one thread.
class Strand {
 public:
  using Task = TaskQueue::Task;

  // Thread-safe; never blocks on a task; a task may post. After Stop() it drops the task and
  // returns false.
  bool Post(Task task) { return queue_.Post(std::move(task)); }

  // Runs the tasks posted so far, drops later ones and joins the thread. The destructor does the
  // same. Idempotent. Must not be called from a task.
  void Stop() { queue_.Stop(); }

 private:
  TaskQueue queue_;
};

}  // namespace remesh
