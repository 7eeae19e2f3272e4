// SPDX-License-Identifier: Apache-2.0
#include "server/planning/thread_pool.h"

#include <utility>

#include "base/check.h"

namespace remesh {

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

void ThreadPool::Stop() {
  std::deque<Task> dropped;  // destroyed without the lock: a task's destructor may post
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
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

}  // namespace remesh
