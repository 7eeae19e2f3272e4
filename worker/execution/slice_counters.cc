// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/slice_counters.h"

#include "base/check.h"

namespace remesh::worker {

std::atomic<uint64_t>* SliceCounters::Add(const std::string& attempt, const v1::AttemptId& id) {
  absl::MutexLock lock(&mutex_);
  const auto [counter, added] = counters_.try_emplace(attempt);
  REMESH_CHECK(added);
  counter->second.id = id;
  return &counter->second.slices;
}

void SliceCounters::Drop(const std::string& attempt) {
  absl::MutexLock lock(&mutex_);
  const auto counter = counters_.find(attempt);
  REMESH_CHECK(counter != counters_.end());
  dropped_ += counter->second.slices;
  counters_.erase(counter);
}

void SliceCounters::Report(v1::Heartbeat& beat) const {
  absl::MutexLock lock(&mutex_);
  uint64_t all = 1 + dropped_;
  size_t reported = 0;
  for (const auto& [attempt, counter] : counters_) {
    const uint64_t slices = counter.slices;
    all += slices;
    if (++reported > kReportedMax) continue;
    v1::AttemptSlices& message = *beat.add_attempts();
    *message.mutable_attempt() = counter.id;
    message.set_slices(1 + slices);
  }
  beat.set_slices(all);
}

}  // namespace remesh::worker
