// SPDX-License-Identifier: Apache-2.0
#include "server/planning/fair_queue.h"

#include <algorithm>

namespace remesh::server {

bool FairQueue::Push(const Turn& turn, Task task) {
  Lane& lane = lanes_[turn.execution ? 0 : 1];
  if (lane.count >= limits_.waiting_max) return false;
  const auto waiting = lane.tasks.find(turn.caller);
  if (waiting == lane.tasks.end()) {
    if (limits_.waiting_max_of_caller == 0) return false;
    lane.callers.push_back(turn.caller);
    lane.tasks[turn.caller].push_back(std::move(task));
  } else {
    if (waiting->second.size() >= limits_.waiting_max_of_caller) return false;
    waiting->second.push_back(std::move(task));
  }
  ++lane.count;
  return true;
}

bool FairQueue::MayRun(const std::string& caller) const {
  const auto running = running_.find(caller);
  return running == running_.end() || running->second < limits_.running_max_of_caller;
}

std::optional<FairQueue::Next> FairQueue::Pop(bool executions_only) {
  for (Lane& lane : lanes_) {
    if (executions_only && &lane != &lanes_[0]) break;
    // Callers that are passed over run tasks, so there are no more of them than threads.
    const auto turn = std::find_if(lane.callers.begin(), lane.callers.end(),
                                   [&](const std::string& caller) { return MayRun(caller); });
    if (turn == lane.callers.end()) continue;
    const std::string caller = *turn;
    lane.callers.erase(turn);
    const auto waiting = lane.tasks.find(caller);
    Next next{.caller = caller, .task = std::move(waiting->second.front())};
    waiting->second.pop_front();
    if (waiting->second.empty()) {
      lane.tasks.erase(waiting);
    } else {
      lane.callers.push_back(caller);
    }
    --lane.count;
    ++running_[caller];
    return next;
  }
  return std::nullopt;
}

bool FairQueue::CanPop(bool executions_only) const {
  for (const Lane& lane : lanes_) {
    if (executions_only && &lane != &lanes_[0]) break;
    if (std::any_of(lane.callers.begin(), lane.callers.end(),
                    [&](const std::string& caller) { return MayRun(caller); })) {
      return true;
    }
  }
  return false;
}

void FairQueue::Ended(const std::string& caller) {
  const auto running = running_.find(caller);
  if (--running->second == 0) running_.erase(running);
}

}  // namespace remesh::server
