// SPDX-License-Identifier: Apache-2.0
#include "server/callers/turn_lane.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"

namespace remesh::server {
namespace {

// A turn takes at most one in so many of the tasks that wait, or `in_turn`.
constexpr size_t kTurns = 16;
// A turn ends after this time, or this time for each task that waits: other tasks, such as the
// steps of a caller's question, wait for several turns. Because the time grows with what waits, the
// lane gets as much of the strand as it needs: while tasks of together t come a turn, some t / 1 us
// of them wait, or 16 turns' tasks if those are more.
constexpr Timestamp kTurnTime = std::chrono::milliseconds(10);
constexpr Timestamp kTurnTimeOfTask = std::chrono::microseconds(1);

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
  const size_t waiting = Waiting();
  const size_t most = std::max(in_turn_, waiting / kTurns);
  const Timestamp time = std::max(kTurnTime, kTurnTimeOfTask * static_cast<int64_t>(waiting));
  const Timestamp end = SteadyClock().Now() + time;
  for (size_t run = 0;; ++run) {
    const bool is_over = run >= most || (run >= in_turn_ && SteadyClock().Now() >= end);
    if (is_over && strand_.Post([this] { Run(); })) return;
    Strand::Task task = Next();
    if (task == nullptr) return;
    std::move(task)();
  }
}

size_t TurnLane::Waiting() {
  absl::MutexLock lock(&mutex_);
  return tasks_.size();
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
