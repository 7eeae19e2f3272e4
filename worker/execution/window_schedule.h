// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace remesh::worker {

// Decides which windows of an attempt run on this host. Windows start in order: window w starts
// once it is granted and all of this host's work of window w - 2 is done. Windows finish in order,
// too. A window without work starts and finishes like the others. A pure state machine.
class WindowSchedule {
 public:
  // work[w]: units of work of window w on this host.
  explicit WindowSchedule(std::vector<int64_t> work);

  // Allows windows [0, until) to start. A grant is never taken back.
  void Grant(int32_t until);
  // One unit of work of a started window is done.
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
  int32_t started_ = 0;   // windows [0, started_) have started
  int32_t done_ = 0;      // windows [0, done_) have nothing left
  int32_t finished_ = 0;  // windows [0, finished_) were reported
};

}  // namespace remesh::worker
