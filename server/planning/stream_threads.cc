// SPDX-License-Identifier: Apache-2.0
#include "server/planning/stream_threads.h"

#include <algorithm>
#include <utility>

namespace remesh::server {
namespace {

// A caller may use 1 / kPartsOfThreads of the threads, and of the places to wait.
constexpr int kPartsOfThreads = 4;
// Where there are few processors, what is made in bulk yields to those who answer calls and lead
// moves, but not as far as work that may take long: workers wait for it in the middle of a move.
constexpr int kNice = 5;

}  // namespace

StreamThreads::StreamThreads(int threads, size_t waiting_max)
    : waiting_of_caller_max_(std::max<size_t>(1, waiting_max / kPartsOfThreads)),
      pool_({.threads = threads,
             .waiting_max = waiting_max,
             .nice = kNice,
             .fair = true,
             .running_max_of_caller = std::max(1, threads / kPartsOfThreads)}) {}

bool StreamThreads::Enter(const std::string& caller, const void* stream, Begin begin) {
  {
    absl::MutexLock lock(&mutex_);
    std::deque<Waiting>& waiting = callers_[caller].waiting;
    if (waiting.size() >= waiting_of_caller_max_) return false;
    waiting.push_back({.stream = stream, .begin = std::move(begin)});
  }
  BeginNext(caller);
  return true;
}

void StreamThreads::Leave(const std::string& caller) {
  {
    absl::MutexLock lock(&mutex_);
    --callers_[caller].under_way;
  }
  BeginNext(caller);
}

void StreamThreads::Forget(const std::string& caller, const void* stream) {
  Begin dropped;  // destroyed without the lock, because its destructor may do anything
  absl::MutexLock lock(&mutex_);
  const auto found = callers_.find(caller);
  if (found == callers_.end()) return;
  std::deque<Waiting>& waiting = found->second.waiting;
  const auto place = std::find_if(waiting.begin(), waiting.end(),
                                  [&](const Waiting& one) { return one.stream == stream; });
  if (place == waiting.end()) return;
  dropped = std::move(place->begin);
  waiting.erase(place);
  if (waiting.empty() && found->second.under_way == 0) callers_.erase(found);
}

void StreamThreads::BeginNext(const std::string& caller) {
  for (bool begun = false; !begun;) {
    Begin begin;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = callers_.find(caller);
      if (found == callers_.end()) return;
      Streams& streams = found->second;
      if (streams.waiting.empty()) {
        if (streams.under_way == 0) callers_.erase(found);
        return;
      }
      if (streams.under_way >= kOfCallerMax) return;
      begin = std::move(streams.waiting.front().begin);
      streams.waiting.pop_front();
      ++streams.under_way;
    }
    begun = begin();
    if (begun) return;
    absl::MutexLock lock(&mutex_);
    --callers_[caller].under_way;
  }
}

void StreamThreads::After(absl::Duration delay, TaskQueue::Task task) {
  timer_.PostAfter(delay, std::move(task));
}

void StreamThreads::Stop() {
  timer_.Stop();
  pool_.Stop();
}

}  // namespace remesh::server
