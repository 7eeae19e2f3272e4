// SPDX-License-Identifier: Apache-2.0
#include "server/callers/turn_lane.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"

namespace remesh::server {
namespace {

// A turn takes at least one in so many of the tasks that wait. So while k tasks come a turn, no
// more than some k * kTurns wait, and each for a few times kTurns turns.
constexpr size_t kTurns = 16;
// A turn ends after this time; other tasks, such as the steps of a caller's question, wait for
// several turns.
constexpr Timestamp kTurnMax = std::chrono::milliseconds(10);
// But not while more tasks wait than the largest fleet has workers, a few times: then each turn is
// a part of what waits, however long it takes.
constexpr size_t kManyWait = 65'536;

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
  const Turn turn = NextTurn();
  const Timestamp end = SteadyClock().Now() + kTurnMax;
  for (size_t run = 0;; ++run) {
    const bool is_over = run >= turn.most || (run >= turn.least && SteadyClock().Now() >= end);
    if (is_over && strand_.Post([this] { Run(); })) return;
    Strand::Task task = Next();
    if (task == nullptr) return;
    std::move(task)();
  }
}

TurnLane::Turn TurnLane::NextTurn() {
  absl::MutexLock lock(&mutex_);
  const size_t most = std::max(in_turn_, tasks_.size() / kTurns);
  return {.least = tasks_.size() > kManyWait ? most : in_turn_, .most = most};
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
