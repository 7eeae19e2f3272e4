// SPDX-License-Identifier: Apache-2.0
#include "server/callers/caller_turns.h"

#include <limits>
#include <optional>
#include <utility>

namespace remesh::server {
namespace {

constexpr FairQueue::Limits kNone{.waiting_max = std::numeric_limits<size_t>::max(),
                                  .waiting_max_of_caller = std::numeric_limits<size_t>::max(),
                                  .running_max_of_caller = 1};

}  // namespace

CallerTurns::CallerTurns(Strand& strand, size_t in_turn)
    : strand_(strand), in_turn_(in_turn), waiting_(kNone) {}

void CallerTurns::Push(const std::string& caller, FairQueue::Task task) {
  {
    absl::MutexLock lock(&mutex_);
    waiting_.Push({.caller = caller}, std::move(task));
    if (std::exchange(posted_, true)) return;
  }
  if (!strand_.Post([this] { Run(in_turn_); })) Run(in_turn_);
}

void CallerTurns::RunWaiting() {
  size_t waiting = 0;
  {
    absl::MutexLock lock(&mutex_);
    waiting = waiting_.size();
  }
  Run(waiting);
}

void CallerTurns::Run(size_t most) {
  for (size_t run = 0;; ++run) {
    if (run == most && strand_.Post([this] { Run(in_turn_); })) return;
    std::optional<FairQueue::Next> next;
    {
      absl::MutexLock lock(&mutex_);
      next = waiting_.Pop(/*executions_only=*/false);
      posted_ = next.has_value();
    }
    if (!next) return;
    next->task();
    {
      absl::MutexLock lock(&mutex_);
      waiting_.Ended(next->caller);
      if (waiting_.empty()) {
        posted_ = false;
        return;
      }
    }
  }
}

}  // namespace remesh::server
