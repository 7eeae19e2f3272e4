// SPDX-License-Identifier: Apache-2.0
#include "worker/device/copy_pool.h"

#include <utility>

#include "base/check.h"

namespace remesh::worker {

CopyPool::CopyPool(int threads, Notify on_finished) : on_finished_(std::move(on_finished)) {
  REMESH_CHECK(threads > 0);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { RunThread(); });
}

CopyPool::~CopyPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void CopyPool::Run(Work work, Done done) {
  ++pending_;
  absl::MutexLock lock(&mutex_);
  queued_.push_back({std::move(work), std::move(done), absl::OkStatus()});
}

void CopyPool::CancelQueued() {
  {
    absl::MutexLock lock(&mutex_);
    if (queued_.empty()) return;
    for (Job& job : queued_) {
      job.status = absl::CancelledError("cancelled before it began");
      ended_.push_back(std::move(job));
    }
    queued_.clear();
  }
  on_finished_();
}

bool CopyPool::Drain() {
  std::deque<Job> ended;
  {
    absl::MutexLock lock(&mutex_);
    ended.swap(ended_);
  }
  for (Job& job : ended) {
    --pending_;
    job.done(job.status);
  }
  return !ended.empty();
}

void CopyPool::RunThread() {
  while (true) {
    Job job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &CopyPool::HasWork));
      if (stopping_) return;
      job = std::move(queued_.front());
      queued_.pop_front();
    }
    job.work();
    job.work = nullptr;  // destroys its captures here, not on the owning thread
    {
      absl::MutexLock lock(&mutex_);
      ended_.push_back(std::move(job));
    }
    on_finished_();
  }
}

}  // namespace remesh::worker
