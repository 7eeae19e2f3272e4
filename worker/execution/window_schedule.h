// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace remesh::worker {

// Which windows of an attempt run on this host: window w starts, in order, once it is granted and
// all of this host's work of w - 2 is done; windows finish in order. A pure state machine; windows
// without work start and finish like the others.
class WindowSchedule {
 public:
  // work[w]: units of work of window w on this host.
  explicit WindowSchedule(std::vector<int64_t> work);

  // Windows [0, until) may start. Never takes back.
  void Grant(int32_t until);
  // One unit of a started window is done.
  void Done(int32_t window);

  // The next window to start, which then counts as started; nullopt when none may.
  std::optional<int32_t> TakeStartable();
  // The next window to report as finished, which then counts as reported; nullopt when none is.
  std::optional<int32_t> TakeFinished();

  int32_t started() const { return started_; }
  bool all_finished() const { return finished_ == static_cast<int32_t>(left_.size()); }

 private:
  // Whether the work of [0, window] is done; true below 0.
  bool DoneThrough(int32_t window) const;

  std::vector<int64_t> left_;
  int32_t granted_ = 0;
  int32_t started_ = 0;   // windows [0, started_) are
  int32_t done_ = 0;      // windows [0, done_) have nothing left
  int32_t finished_ = 0;  // windows [0, finished_) were reported
};

}  // namespace remesh::worker
