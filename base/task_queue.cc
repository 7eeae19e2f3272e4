// SPDX-License-Identifier: Apache-2.0
#include "base/task_queue.h"

#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace remesh {
namespace {

// By the steady clock, counted from an arbitrary time: a step of the wall clock must delay nothing.
// (A thread that waits sleeps by the wall clock, so after a step back it may wake up only when the
// next task is posted.)
absl::Time Now() { return absl::UnixEpoch() + absl::FromChrono(SteadyClock().Now()); }

}  // namespace

TaskQueue::TaskQueue(Options options) : on_start_(std::move(options.on_start)) {
  REMESH_CHECK(options.threads >= 1);
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Run(); });
}

bool TaskQueue::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  tasks_.push_back(std::move(task));
  return true;
}

bool TaskQueue::PostAfter(absl::Duration delay, Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  later_.emplace(Now() + delay, std::move(task));
  return true;
}

size_t TaskQueue::waiting() const {
  absl::MutexLock lock(&mutex_);
  return tasks_.size();
}

void TaskQueue::Flush() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](TaskQueue* queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue->mutex_) {
        return queue->tasks_.empty() && queue->running_ == 0;
      },
      this));
}

void TaskQueue::Stop(Rest rest) {
  // Destroyed after the lock is released: a task's destructor may post.
  std::deque<Task> dropped;
  std::multimap<absl::Time, Task> dropped_later;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    dropped_later.swap(later_);
    if (rest == Rest::kDrop) dropped.swap(tasks_);
  }
  for (std::thread& thread : threads_) {
    REMESH_CHECK(std::this_thread::get_id() != thread.get_id());
    if (thread.joinable()) thread.join();
  }
}

bool TaskQueue::HasWork() const { return stopping_ || !tasks_.empty(); }

void TaskQueue::PostDue() {
  if (later_.empty()) return;
  const absl::Time now = Now();
  while (!later_.empty() && later_.begin()->first <= now) {
    tasks_.push_back(std::move(later_.extract(later_.begin()).mapped()));
  }
}

bool TaskQueue::Await(Task& task) {
  absl::MutexLock lock(&mutex_);
  while (true) {
    PostDue();
    if (!tasks_.empty()) break;
    if (stopping_) return false;
    // Wakes when a task is posted, and when a delayed task becomes due earlier than `first`.
    const absl::Time first = later_.empty() ? absl::InfiniteFuture() : later_.begin()->first;
    const auto changed = [this, first]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return HasWork() || (!later_.empty() && later_.begin()->first < first);
    };
    mutex_.AwaitWithTimeout(absl::Condition(&changed), first - Now());
  }
  task = std::move(tasks_.front());
  tasks_.pop_front();
  ++running_;
  return true;
}

void TaskQueue::Run() {
  if (on_start_ != nullptr) on_start_();
  Task task;
  while (Await(task)) {
    std::move(task)();
    task = nullptr;  // destroys what the task holds before it counts as ended
    absl::MutexLock lock(&mutex_);
    --running_;
  }
}

}  // namespace remesh
