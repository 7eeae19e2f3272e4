// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace remesh {

// Runs tasks one at a time, in the order they were posted, on a thread of its own: what only its
// tasks touch needs no lock.
class Strand {
 public:
  using Task = absl::AnyInvocable<void()>;

  Strand();
  // Runs what was posted, then stops. Must not be called from a task.
  ~Strand();

  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // Thread-safe, never blocks on a task; a task may post. After Stop() the task is dropped and
  // false comes back.
  bool Post(Task task);

  // Runs what was posted, drops what comes later, joins the thread. Idempotent; must not be called
  // from a task.
  void Stop();

 private:
  void Run();

  absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh
