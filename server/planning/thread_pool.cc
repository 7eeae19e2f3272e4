// SPDX-License-Identifier: Apache-2.0
#include "server/planning/thread_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace remesh {
namespace {

constexpr int kBackgroundNice = 19;

}  // namespace

ThreadPool::ThreadPool(int threads, size_t waiting_max) : waiting_max_(waiting_max) {
  REMESH_CHECK(threads >= 1);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

ThreadPool::~ThreadPool() { Stop(); }

bool ThreadPool::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || tasks_.size() >= waiting_max_) return false;
  tasks_.push_back(std::move(task));
  return true;
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
  std::deque<Task> dropped;  // destroyed without the lock: a task's destructor may post
  std::deque<Task> dropped_background;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
    dropped_background.swap(background_);
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  if (background_thread_.joinable()) background_thread_.join();
}

void ThreadPool::Run() {
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](ThreadPool* pool) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pool->mutex_) {
            return pool->stopping_ || !pool->tasks_.empty();
          },
          this));
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    std::move(task)();
  }
}

bool ThreadPool::HasTurn() const { return !background_.empty() && tasks_.empty(); }

void ThreadPool::RunBackground() {
  // Of this thread alone, as Linux has it. Where it is not allowed, order is all there is.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kBackgroundNice);
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
