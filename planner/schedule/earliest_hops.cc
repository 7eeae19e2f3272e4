// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/earliest_hops.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "absl/types/span.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

constexpr int32_t kNone = std::numeric_limits<int32_t>::max();  // greater than any segment

// Walks through the moves of one segment.
class SegmentWalk {
 public:
  explicit SegmentWalk(std::vector<Move>& moves) : moves_(moves) {}

  // Sets the hops of the segment's moves and returns the largest.
  int32_t Walk(absl::Span<const int32_t> of_segment) {
    const auto passes_on = [&](int32_t m) { return moves_[m].hop > 0; };
    if (std::none_of(of_segment.begin(), of_segment.end(), passes_on)) return 0;
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

// The moves that come after others of a later segment, by segment. Moves are made segment by
// segment, so these are mostly the pieces that were cut off them.
std::vector<int32_t> LaterMoves(size_t segments, const std::vector<Move>& moves, Budget& budget) {
  size_t first = std::min<size_t>(1, moves.size());
  while (first < moves.size() && moves[first - 1].segment <= moves[first].segment) {
    if (budget.Spent()) return {};
    ++first;
  }
  std::vector<int32_t> later(moves.size() - first);
  std::iota(later.begin(), later.end(), static_cast<int32_t>(first));
  if (later.empty()) return later;
  return StableOrder(
      later, static_cast<int32_t>(segments), [&](int32_t m) { return moves[m].segment; }, budget);
}

}  // namespace

int32_t SetEarliestHops(size_t segments, std::vector<Move>& moves, Budget& budget) {
  const std::vector<int32_t> later = LaterMoves(segments, moves, budget);
  if (budget.SpentNow()) return 1;
  const size_t in_order = moves.size() - later.size();
  SegmentWalk walk(moves);
  std::vector<int32_t> of_segment;
  int32_t last = 0;
  size_t i = 0, k = 0;
  while ((i < in_order || k < later.size()) && !budget.Spent()) {
    of_segment.clear();
    const int32_t segment = std::min(i < in_order ? moves[i].segment : kNone,
                                     k < later.size() ? moves[later[k]].segment : kNone);
    for (; i < in_order && moves[i].segment == segment; ++i) {
      of_segment.push_back(static_cast<int32_t>(i));
    }
    for (; k < later.size() && moves[later[k]].segment == segment; ++k) {
      of_segment.push_back(later[k]);
    }
    last = std::max(last, walk.Walk(of_segment));
  }
  return last + 1;
}

}  // namespace remesh::planner
