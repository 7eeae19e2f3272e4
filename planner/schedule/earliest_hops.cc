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
  int32_t Walk(absl::Span<const int32_t> of_segment) {
    arrivals_.clear();
    leavings_.clear();
    for (const int32_t m : of_segment) {
      const Move& move = moves_[m];
      arrivals_.push_back({move.to_device, move.to_space, move.lo, m});
      leavings_.push_back({move.hop, move.round, m});
    }
    std::sort(arrivals_.begin(), arrivals_.end());
    std::sort(leavings_.begin(), leavings_.end());
    int32_t last = 0;
    for (const auto& [hop, round, m] : leavings_) {
      moves_[m].hop = EarliestOf(moves_[m]);
      last = std::max(last, moves_[m].hop);
    }
    return last;
  }

 private:
  // A move by where it arrives: compared, with what lies beside it, far more often than looked at.
  struct Arrival {
    int32_t device = 0;
    Space space = Space::kSource;
    int64_t lo = 0;
    int32_t move = 0;

    friend bool operator<(const Arrival& a, const Arrival& b) {
      return std::tie(a.device, a.space, a.lo) < std::tie(b.device, b.space, b.lo);
    }
  };
  // The same by when it leaves.
  struct Leaving {
    int32_t hop = 0;
    int32_t round = 0;
    int32_t move = 0;

    friend auto operator<=>(const Leaving&, const Leaving&) = default;
  };

  int32_t EarliestOf(const Move& move) const {
    if (move.from_space == Space::kSource) return 0;
    const Arrival begin{move.from_device, move.from_space, move.lo};
    const Arrival end{move.from_device, move.from_space, move.hi};
    auto at = std::upper_bound(arrivals_.begin(), arrivals_.end(), begin);
    if (at != arrivals_.begin()) --at;  // the one that holds the move's begin, if any does
    int32_t hop = 0;
    for (; at != arrivals_.end() && *at < end; ++at) {
      const Move& before = moves_[at->move];
      const bool other = before.to_device != move.from_device || before.to_space != move.from_space;
      if (other || before.hi <= move.lo) continue;
      hop = std::max(hop, before.hop + (before.round < move.round ? 0 : 1));
    }
    return hop;
  }

  std::vector<Move>& moves_;
  std::vector<Arrival> arrivals_;
  std::vector<Leaving> leavings_;
};

}  // namespace

int32_t SetEarliestHops(size_t segments, std::vector<Move>& moves, Budget& budget) {
  const std::vector<int32_t> order = StableOrder(
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
    last = std::max(last, walk.Walk(absl::MakeConstSpan(order).subspan(begin, end - begin)));
  }
  return last + 1;
}

}  // namespace remesh::planner
