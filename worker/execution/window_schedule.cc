// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/window_schedule.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace remesh::worker {

WindowSchedule::WindowSchedule(std::vector<int64_t> work) : left_(std::move(work)) {}

void WindowSchedule::Grant(int32_t until) {
  granted_ = std::max(granted_, std::min(until, static_cast<int32_t>(left_.size())));
}

void WindowSchedule::Done(int32_t window) {
  REMESH_CHECK(window < started_ && left_[window] > 0);
  --left_[window];
}

bool WindowSchedule::DoneThrough(int32_t window) const { return window < done_; }

std::optional<int32_t> WindowSchedule::TakeStartable() {
  while (done_ < started_ && left_[done_] == 0) ++done_;
  if (started_ >= granted_ || !DoneThrough(started_ - 2)) return std::nullopt;
  return started_++;
}

std::optional<int32_t> WindowSchedule::TakeFinished() {
  while (done_ < started_ && left_[done_] == 0) ++done_;
  if (finished_ >= done_) return std::nullopt;
  return finished_++;
}

}  // namespace remesh::worker
