// SPDX-License-Identifier: Apache-2.0
#include "worker/device/copy_pool.h"

#include <utility>

#include "base/check.h"

namespace remesh::worker {
namespace {

// Waking a thread costs as much as hashing some tens of kilobytes, and small messages come in
// bursts.
constexpr int64_t kBytesWorthWaking = int64_t{512} << 10;

}  // namespace

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

void CopyPool::Run(int64_t bytes, Work work, Done done) {
  ++pending_;
  absl::MutexLock lock(&mutex_);
  queued_.push_back({bytes, std::move(work), std::move(done), absl::OkStatus()});
  queued_bytes_ += bytes;
  if (queued_bytes_ >= kBytesWorthWaking) started_ = true;
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
    queued_bytes_ = 0;
    started_ = false;
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
  absl::MutexLock lock(&mutex_);
  started_ = !queued_.empty();
  return !ended.empty();
}

std::optional<CopyPool::Job> CopyPool::TakeQueued() {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || queued_.empty()) return std::nullopt;
  Job job = std::move(queued_.front());
  queued_.pop_front();
  queued_bytes_ -= job.bytes;
  if (queued_.empty()) started_ = false;
  return job;
}

void CopyPool::RunThread() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &CopyPool::MustWork));
      if (stopping_) return;
    }
    while (std::optional<Job> job = TakeQueued()) {
      job->work();
      job->work = nullptr;  // destroys its captures here, not on the owning thread
      bool is_first = false;
      {
        absl::MutexLock lock(&mutex_);
        is_first = ended_.empty();
        ended_.push_back(*std::move(job));
      }
      if (is_first) on_finished_();
    }
  }
}

}  // namespace remesh::worker
