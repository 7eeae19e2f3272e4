// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "planner/atoms/tape.h"
#include "planner/plan/transfer.h"
#include "planner/schedule/relay_areas.h"
#include "planner/schedule/timeline.h"

namespace remesh::planner {

// A move as it is expanded, with the tape that it moves.
struct Work {
  int32_t from_device = 0;
  int32_t to_device = 0;
  Space from_space = Space::kSource;
  Space to_space = Space::kTarget;
  int32_t hop = 0;
  Segment segment;             // its tape's number in the plan
  int32_t segment_number = 0;  // in the plan: decides when short segments move
  Interval stripe;             // of the segment
  const TapeRuns* tape = nullptr;
  const StagedPiece* staged = nullptr;  // where the receiver stages it; null: unknown or not staged
};

// The position in the receiver's area where the work's part of `turn` is staged; -1 where
// Work::staged is null.
int64_t StagedAt(const Work& work, const Schedule& schedule, int32_t turn);

// The range of the tape that the work moves in `turn`: at most one part of the segment, empty in
// the turns in which it rests.
Interval PartOf(const Work& work, const Schedule& schedule, int32_t turn);

// Expands moves of tapes into parts in windows, and these into boxes of arrays. Plans and hosts'
// programs are expanded by this code only.
class Expansion {
 public:
  Expansion(const AtomGeometry& geometry, const Schedule& schedule, int32_t windows)
      : geometry_(geometry),
        schedule_(schedule),
        windows_(windows),
        work_of_round_(static_cast<size_t>(schedule.rounds)) {}

  // Adds a move. REQUIRES: in the plan's order, round by round.
  void Add(int32_t round, const Work& work) { work_of_round_[round].push_back(work); }

  // Calls visit(window, work, range of its tape) for every part that is not empty, in rising
  // windows from `first_window` on, until it returns false.
  template <typename Visit>
  void ForEachPart(const Visit& visit, int32_t first_window = 0) const {
    for (int32_t window = first_window; window < windows_; ++window) {
      const int32_t cycle = window / schedule_.rounds;
      for (const Work& work : work_of_round_[window % schedule_.rounds]) {
        const int32_t turn = cycle - work.hop;
        if (turn < 0 || turn >= schedule_.parts) continue;
        const Interval range = PartOf(work, schedule_, turn);
        if (range.lo != range.hi && !visit(window, work, range)) return;
      }
    }
  }

  // Visits every box of every part as a transfer, from `first_window` on. Once `visit` has returned
  // false it may still be called for the rest of the part, but for no further part.
  void ForEachTransfer(absl::FunctionRef<bool(const Transfer&)> visit,
                       int32_t first_window = 0) const;

 private:
  const AtomGeometry& geometry_;
  const Schedule schedule_;
  const int32_t windows_;
  std::vector<std::vector<Work>> work_of_round_;
};

}  // namespace remesh::planner
