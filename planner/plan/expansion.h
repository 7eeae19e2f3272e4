// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "planner/atoms/tape.h"
#include "planner/plan/transfer.h"
#include "planner/schedule/timeline.h"

namespace remesh {

// A move as it is expanded, with the tape it runs on.
struct Work {
  int32_t from_device = 0;
  int32_t to_device = 0;
  Space from_space = Space::kSource;
  Space to_space = Space::kTarget;
  int32_t stage = 0;
  Segment segment;             // its sub's number in the plan
  int32_t segment_number = 0;  // in the plan: says when short segments move
  Interval stripe;             // of the segment
  const Tape* tape = nullptr;
};

// Range of the tape that `slice` of the work takes: at most one part of the segment, nothing in the
// slices in which it rests.
Interval SliceOf(const Work& work, const Schedule& schedule, int32_t slice);

// From moves of subs to slices of them in windows, and to boxes of arrays: the one way in which
// plans and hosts' programs are expanded.
class Expansion {
 public:
  Expansion(const Tapes& tapes, const Schedule& schedule, int32_t windows)
      : tapes_(tapes),
        schedule_(schedule),
        windows_(windows),
        work_of_round_(static_cast<size_t>(schedule.rounds)) {}

  // In the plan's order, round by round.
  void Add(int32_t round, const Work& work) { work_of_round_[round].push_back(work); }

  // Calls visit(window, work, range of its tape) for every slice that holds something, in rising
  // windows, until it returns false.
  template <typename Visit>
  void ForEachSlice(const Visit& visit) const {
    for (int32_t window = 0; window < windows_; ++window) {
      const int32_t cycle = window / schedule_.rounds;
      for (const Work& work : work_of_round_[window % schedule_.rounds]) {
        const int32_t slice = cycle - work.stage;
        if (slice < 0 || slice >= schedule_.slices) continue;
        const Interval range = SliceOf(work, schedule_, slice);
        if (range.lo != range.hi && !visit(window, work, range)) return;
      }
    }
  }

  // Every box of every slice as a transfer. Once `visit` has returned false it may be called for
  // the rest of the slice, but for no further one.
  void ForEachTransfer(absl::FunctionRef<bool(const Transfer&)> visit) const;

 private:
  const Tapes& tapes_;
  const Schedule schedule_;
  const int32_t windows_;
  std::vector<std::vector<Work>> work_of_round_;
};

}  // namespace remesh
