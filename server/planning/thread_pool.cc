// SPDX-License-Identifier: Apache-2.0
#include "server/planning/thread_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"

namespace remesh::server {
namespace {

constexpr int kBackgroundNice = 19;
constexpr size_t kCallersShare = 4;  // one caller's share of the places to wait

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
          .running_max_of_caller = options.running_max_of_caller > 0
                                       ? static_cast<size_t>(options.running_max_of_caller)
                                       : std::max<size_t>(1, threads - 1)};
}

// Tasks in the background wait for hours if need be, so a caller may have half of the places: a
// single request for plans made ahead may need thousands.
FairQueue::Limits BackgroundLimitsOf(const ThreadPool::Options& options) {
  FairQueue::Limits limits = LimitsOf(options);
  if (options.fair) limits.waiting_max_of_caller = std::max<size_t>(1, options.waiting_max / 2);
  return limits;
}

// Lowers the priority of this thread, which Linux has one of its own for, below that of the process.
// Without permission, only the order of tasks remains.
void BeNice(int nice) {
  if (nice == 0) return;
  const int process = getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), process + nice);
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
    : tasks_(LimitsOf(options)),
      background_tasks_(BackgroundLimitsOf(options)),
      threads_({.threads = options.threads, .on_start = [nice = options.nice] { BeNice(nice); }}) {
  if (options.execution_threads == 0) return;
  execution_threads_ =
      std::make_unique<TaskQueue>(TaskQueue::Options{.threads = options.execution_threads});
}

ThreadPool::~ThreadPool() { Stop(); }

bool ThreadPool::Post(const Turn& turn, Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || !tasks_.Push(turn, std::move(task))) return false;
  PostNext(turn.execution);
  return true;
}

void ThreadPool::PostNext(bool execution) {
  threads_.Post([this] { RunNext(/*executions_only=*/false); });
  if (!execution || execution_threads_ == nullptr) return;
  execution_threads_->Post([this] { RunNext(/*executions_only=*/true); });
}

bool ThreadPool::PostBackground(const std::string& caller, Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || !background_tasks_.Push({.caller = caller}, std::move(task))) return false;
  if (background_ == nullptr) {
    background_ = std::make_unique<TaskQueue>(
        TaskQueue::Options{.on_start = [] { BeNice(kBackgroundNice); }});
  }
  return background_->Post([this] { RunInBackground(); });
}

bool ThreadPool::stopped() const {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

void ThreadPool::Stop() {
  // Destroyed without the lock, because a task's destructor may post.
  FairQueue dropped({}), dropped_background({});
  TaskQueue* background;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    std::swap(dropped, tasks_);
    std::swap(dropped_background, background_tasks_);
    background = background_.get();
  }
  threads_.Stop(TaskQueue::Rest::kDrop);
  if (execution_threads_ != nullptr) execution_threads_->Stop(TaskQueue::Rest::kDrop);
  if (background != nullptr) background->Stop(TaskQueue::Rest::kDrop);
}

void ThreadPool::RunNext(bool executions_only) {
  std::optional<FairQueue::Next> next;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    next = tasks_.Pop(executions_only);
  }
  if (!next.has_value()) return;  // another thread took it, or its caller runs enough tasks
  std::move(next->task)();
  next->task = nullptr;  // frees what it holds before its caller may run another
  absl::MutexLock lock(&mutex_);
  if (stopping_) return;
  tasks_.Ended(next->caller);
  // Tasks that this caller may run now were passed over before.
  if (tasks_.CanPop(/*executions_only=*/false)) {
    PostNext(/*execution=*/tasks_.CanPop(/*executions_only=*/true));
  }
}

void ThreadPool::RunInBackground() {
  std::optional<FairQueue::Next> next;
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](ThreadPool* pool) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pool->mutex_) {
          return pool->stopping_ || pool->tasks_.empty();
        },
        this));
    if (stopping_) return;
    next = background_tasks_.Pop(/*executions_only=*/false);
  }
  std::move(next->task)();
  next->task = nullptr;
  absl::MutexLock lock(&mutex_);
  if (!stopping_) background_tasks_.Ended(next->caller);
}

}  // namespace remesh::server
