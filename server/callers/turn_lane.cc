// SPDX-License-Identifier: Apache-2.0
#include "server/callers/turn_lane.h"

#include <algorithm>
#include <utility>

namespace remesh::server {
namespace {

// A turn takes at least one in so many of the tasks that wait. So while k tasks come a turn, no
// more than some k * kTurns wait, and each for a few times kTurns turns.
constexpr size_t kTurns = 16;

}  // namespace

void TurnLane::Push(Strand::Task task) {
  {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  Wake();
}

void TurnLane::PushQuietly(Strand::Task task) {
  {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() < in_turn_) return;
  }
  Wake();
}

void TurnLane::Wake() {
  {
    absl::MutexLock lock(&mutex_);
    if (tasks_.empty() || std::exchange(posted_, true)) return;
  }
  if (strand_.Post([this] { Run(); })) return;
  std::deque<Strand::Task> dropped;  // destroyed without the lock: a task's destructor may push
  {
    absl::MutexLock lock(&mutex_);
    dropped.swap(tasks_);
    posted_ = false;
  }
}

// When the strand stops, it runs what was posted before: here all that waits.
void TurnLane::Run() {
  const size_t most = InTurn();
  for (size_t run = 0;; ++run) {
    if (run == most && strand_.Post([this] { Run(); })) return;
    Strand::Task task = Next();
    if (task == nullptr) return;
    std::move(task)();
  }
}

size_t TurnLane::InTurn() {
  absl::MutexLock lock(&mutex_);
  return std::max(in_turn_, tasks_.size() / kTurns);
}

Strand::Task TurnLane::Next() {
  absl::MutexLock lock(&mutex_);
  if (tasks_.empty()) {
    posted_ = false;
    return nullptr;
  }
  Strand::Task task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

}  // namespace remesh::server
