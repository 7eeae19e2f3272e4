// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>

#include "absl/synchronization/mutex.h"
#include "base/strand.h"

namespace remesh::server {

// Tasks of one kind on a strand that also runs others. They keep their order, but only so many of
// them run in a turn; then the strand runs what else was posted, and the next turn comes after
// that. So however many tasks wait here, all others wait for one turn of them. Where many wait, a
// turn is a part of these: so tasks that come faster than in_turn a turn do not pile up without
// bound. A turn whose tasks take long ends early, later where many wait. Thread-safe.
class TurnLane {
 public:
  // The strand must outlive every Push(), and have stopped before the lane ends.
  TurnLane(Strand& strand, size_t in_turn) : strand_(strand), in_turn_(in_turn) {}

  // Never blocks on a task; a task may push. Once the strand has stopped it destroys the task.
  void Push(Strand::Task task);
  // The same for a task that is in no hurry: it does not wake the strand, but runs in its place
  // once a later task is pushed, a whole turn of tasks waits, or Wake() is called.
  void PushQuietly(Strand::Task task);
  // Lets the strand run what waits.
  void Wake();

 private:
  // Runs a turn. Posted once when a task is pushed that does not come quietly.
  void Run();
  size_t Waiting();
  // The next task; null: none waits, and Push() posts the next turn.
  Strand::Task Next();

  Strand& strand_;
  const size_t in_turn_;
  absl::Mutex mutex_;
  std::deque<Strand::Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool posted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace remesh::server
