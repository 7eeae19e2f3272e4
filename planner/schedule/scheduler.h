// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "planner/atoms/atoms.h"
#include "planner/moves/moves.h"
#include "planner/network/links.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/move_pieces.h"
#include "planner/schedule/price_limits.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/shares.h"
#include "planner/schedule/timeline.h"
#include "planner/schedule/window_parts.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Finds the number of rounds that is fastest.
class Scheduler {
 public:
  // `list`: the pairs of the moves, of which Run() takes the vector. `schedule` is complete except
  // for parts and rounds; its hops are those of a single round.
  Scheduler(Moves& moves, PairList list, const Atoms& atoms, const Links& links,
            const Schedule& schedule, const WindowParts& parts, int64_t window_bits,
            const PriceLimits& limits, Budget& budget)
      : moves_(moves),
        atoms_(atoms),
        links_(links),
        schedule_(schedule),
        parts_(parts),
        window_bits_(window_bits),
        limits_(limits),
        budget_(budget),
        list_(std::move(list)),
        shares_(list_.pairs, links),
        levels_(Hops()) {}

  // nullopt when the schedule takes too many windows.
  std::optional<Timeline> Run(const HeavyPairs& heavy) &&;

 private:
  struct Found {
    std::vector<int32_t> round_of;  // of moves_, once it is the best
    std::vector<MovePiece> pieces;  // cut off some of them
    std::vector<int16_t> hop_of;    // likewise, then of pieces, where there are relays
    Schedule schedule;
    Prediction prediction;
    int64_t messages = 0;
  };
  struct Outcome {
    bool is_good = false;
    bool is_best = false;
  };

  bool IsGood() const { return best_ && IsGood(*best_); }
  bool IsGood(const Found& found) const { return limits_.IsGood(found.prediction); }
  void TryRounds(const HeavyPairs& heavy);
  void TryFrom(int64_t rounds, int64_t last);
  int64_t PartsForPipeline(int64_t least);
  bool IsBetter(const Found& found) const;
  Outcome Try(int64_t rounds);
  bool IsStretched() const;
  void SetRounds(const std::vector<int32_t>& round_of);
  void SetHops(const std::vector<int16_t>& hop_of);
  std::vector<int32_t> Rounds(size_t count) const;
  std::vector<int16_t> Hops() const;
  bool ChooseParts(int64_t least, Found& found);

  Moves& moves_;
  const Atoms& atoms_;
  const Links& links_;
  const Schedule schedule_;
  const WindowParts parts_;
  const int64_t window_bits_;
  const PriceLimits limits_;
  Budget& budget_;
  PairList list_;
  const Shares shares_;
  const std::vector<int16_t> levels_;  // the hops of moves_ in a single round
  std::optional<Found> best_;
};

}  // namespace remesh::planner
