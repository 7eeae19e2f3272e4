// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "absl/synchronization/mutex.h"
#include "base/strand.h"
#include "server/planning/fair_queue.h"

namespace remesh::server {

// Tasks of callers on a strand that also runs others. Callers take turns, and only so many tasks
// run before the strand runs what else was posted: so however many tasks one caller has, other
// callers wait for at most one task of each caller, and other tasks of the strand for a few. Tasks
// of one caller keep their order. No limits on waiting tasks here, because gRPC limits calls.
// Thread-safe.
class CallerTurns {
 public:
  // The strand must outlive every Push(), and have stopped before this ends.
  CallerTurns(Strand& strand, size_t in_turn);

  // Runs the task in the caller's turn: on the strand, or once that has stopped in this call.
  void Push(const std::string& caller, FairQueue::Task task);
  // Runs as many tasks as wait now. To be called on the strand.
  void RunWaiting();

 private:
  // Runs the tasks whose turn it is, up to `most`, and posts the next turn if more wait.
  void Run(size_t most);

  Strand& strand_;
  const size_t in_turn_;
  absl::Mutex mutex_;
  FairQueue waiting_ ABSL_GUARDED_BY(mutex_);
  bool posted_ ABSL_GUARDED_BY(mutex_) = false;  // Run()
};

}  // namespace remesh::server
