// SPDX-License-Identifier: Apache-2.0
#include "server/planning/thread_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace remesh {
namespace {

constexpr int kBackgroundNice = 19;
constexpr size_t kCallersShare = 4;  // one part in so many of the places to wait

FairQueue::Limits LimitsOf(const ThreadPool::Options& options) {
  const auto threads = static_cast<size_t>(options.threads);
  if (!options.fair) {
    return {.waiting_max = options.waiting_max,
            .waiting_max_of_caller = options.waiting_max,
            .running_max_of_caller = threads};
  }
  const size_t share = std::max<size_t>(1, options.waiting_max / kCallersShare);
  return {.waiting_max = options.waiting_max,
          .waiting_max_of_caller = share,
          .running_max_of_caller = std::max<size_t>(1, threads - 1)};
}

// Of this thread alone, as Linux has it. Where it is not allowed, order is all there is.
void BeNice(int nice) {
  if (nice != 0) (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
}

}  // namespace

absl::Status ShuttingDown() {
  return MakeError(absl::StatusCode::kUnavailable, "the server is shutting down",
                   {.reason = "SHUTTING_DOWN", .metadata = {}});
}

absl::Status NotTaken(const ThreadPool& pool) {
  if (pool.stopped()) return ShuttingDown();
  return MakeError(absl::StatusCode::kResourceExhausted, "too many questions wait for an answer",
                   {.reason = "PLANNER_BUSY", .metadata = {}});
}

ThreadPool::ThreadPool(Options options)
    : waiting_max_(options.waiting_max), tasks_(LimitsOf(options)) {
  REMESH_CHECK(options.threads >= 1);
  for (int i = 0; i < options.threads + options.execution_threads; ++i) {
    const bool executions_only = i >= options.threads;
    const int nice = executions_only ? 0 : options.nice;
    threads_.emplace_back([this, executions_only, nice] { Run(executions_only, nice); });
  }
}

ThreadPool::~ThreadPool() { Stop(); }

bool ThreadPool::Post(const Turn& turn, Task task) {
  absl::MutexLock lock(&mutex_);
  return !stopping_ && tasks_.Push(turn, std::move(task));
}

bool ThreadPool::PostBackground(Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || background_.size() >= waiting_max_) return false;
  background_.push_back(std::move(task));
  if (!background_thread_.joinable()) {
    background_thread_ = std::thread([this] { RunBackground(); });
  }
  return true;
}

bool ThreadPool::stopped() const {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

void ThreadPool::Stop() {
  FairQueue dropped({});  // destroyed without the lock: a task's destructor may post
  std::deque<Task> dropped_background;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    std::swap(dropped, tasks_);
    dropped_background.swap(background_);
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  if (background_thread_.joinable()) background_thread_.join();
}

void ThreadPool::Run(bool executions_only, int nice) {
  BeNice(nice);
  const auto ready = [this, executions_only]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || tasks_.CanPop(executions_only);
  };
  while (true) {
    FairQueue::Next next;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (stopping_) return;
      next = *tasks_.Pop(executions_only);
    }
    std::move(next.task)();
    next.task = nullptr;  // what it holds goes before its caller may have another
    absl::MutexLock lock(&mutex_);
    tasks_.Ended(next.caller);
  }
}

bool ThreadPool::HasTurn() const { return !background_.empty() && tasks_.empty(); }

void ThreadPool::RunBackground() {
  BeNice(kBackgroundNice);
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](ThreadPool* pool) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pool->mutex_) {
            return pool->stopping_ || pool->HasTurn();
          },
          this));
      if (stopping_) return;
      task = std::move(background_.front());
      background_.pop_front();
    }
    std::move(task)();
  }
}

}  // namespace remesh
