// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/earliest_hops.h"

#include <algorithm>
#include <tuple>

#include "absl/types/span.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// Walks through the moves of one segment.
class SegmentWalk {
 public:
  explicit SegmentWalk(std::vector<Move>& moves) : moves_(moves) {}

  // Sets the hops of the segment's moves and returns the largest.
  int32_t Walk(absl::Span<int32_t> of_segment) {
    arrivals_.assign(of_segment.begin(), of_segment.end());
    std::sort(arrivals_.begin(), arrivals_.end(),
              [&](int32_t a, int32_t b) { return ArrivalOf(a) < ArrivalOf(b); });
    std::sort(of_segment.begin(), of_segment.end(),
              [&](int32_t a, int32_t b) { return LeavingOf(a) < LeavingOf(b); });
    int32_t last = 0;
    for (const int32_t m : of_segment) {
      moves_[m].hop = EarliestOf(moves_[m]);
      last = std::max(last, moves_[m].hop);
    }
    return last;
  }

 private:
  using Arrival = std::tuple<int32_t, Space, int64_t>;
  Arrival ArrivalOf(int32_t m) const {
    return {moves_[m].to_device, moves_[m].to_space, moves_[m].lo};
  }
  std::tuple<int32_t, int32_t, int32_t> LeavingOf(int32_t m) const {
    return {moves_[m].hop, moves_[m].round, m};
  }

  int32_t EarliestOf(const Move& move) const {
    if (move.from_space == Space::kSource) return 0;
    const Arrival begin{move.from_device, move.from_space, move.lo};
    const Arrival end{move.from_device, move.from_space, move.hi};
    auto at = std::upper_bound(arrivals_.begin(), arrivals_.end(), begin,
                               [&](const Arrival& a, int32_t m) { return a < ArrivalOf(m); });
    if (at != arrivals_.begin()) --at;  // the one that holds the move's begin, if any does
    int32_t hop = 0;
    for (; at != arrivals_.end() && ArrivalOf(*at) < end; ++at) {
      const Move& before = moves_[*at];
      const bool other = before.to_device != move.from_device || before.to_space != move.from_space;
      if (other || before.hi <= move.lo) continue;
      hop = std::max(hop, before.hop + (before.round < move.round ? 0 : 1));
    }
    return hop;
  }

  std::vector<Move>& moves_;
  std::vector<int32_t> arrivals_;  // by device, space and where they begin
};

}  // namespace

int32_t SetEarliestHops(size_t segments, std::vector<Move>& moves, Budget& budget) {
  std::vector<int32_t> order = StableOrder(
      InOrder(moves.size()), static_cast<int32_t>(segments),
      [&](int32_t m) { return moves[m].segment; }, budget);
  SegmentWalk walk(moves);
  int32_t last = 0;
  for (size_t begin = 0, end = 0; begin < order.size() && !budget.Spent(); begin = end) {
    int32_t deepest = 0;
    const int32_t segment = moves[order[begin]].segment;
    for (; end < order.size() && moves[order[end]].segment == segment; ++end) {
      deepest = std::max(deepest, moves[order[end]].hop);
    }
    if (deepest == 0) continue;
    last = std::max(last, walk.Walk(absl::MakeSpan(order).subspan(begin, end - begin)));
  }
  return last + 1;
}

}  // namespace remesh::planner
