// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/messages.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "planner/schedule/segment_parts.h"

namespace remesh {
namespace {

// Counts the cycles in which the moves of one pair and round have something to send. A move of
// stage l that has a part for every slice is at work in the cycles l .. l + slices - 1; only of
// others is it asked which parts they have, and not while such a move is at work anyway.
class CycleCounter {
 public:
  CycleCounter(const std::vector<Move>& moves, const std::vector<Segment>& segments,
               const Schedule& schedule, const Atoms& atoms)
      : moves_(moves), segments_(segments), schedule_(schedule), atoms_(atoms) {}

  // REQUIRES: moves by rising stage.
  int64_t Count(absl::Span<const int32_t> moves) {
    if (moves.size() == 1 && IsBusy(moves_[moves[0]])) {
      return PartsOf(moves_[moves[0]]).count();
    }
    const int64_t slices = schedule_.slices;
    busy_stages_.clear();
    some_.clear();
    for (const int32_t m : moves) AddBusy(moves_[m]);
    for (const int32_t m : moves) AddSome(moves_[m]);
    std::sort(some_.begin(), some_.end());
    int64_t count = std::unique(some_.begin(), some_.end()) - some_.begin();
    for (size_t i = 0; i < busy_stages_.size(); ++i) {
      count += i == 0 ? slices : std::min(slices, busy_stages_[i] - busy_stages_[i - 1]);
    }
    return count;
  }

 private:
  SegmentParts PartsOf(const Move& move) const {
    const Segment& segment = segments_[move.segment];
    return {schedule_, segment, move.segment, atoms_.subs[segment.sub].unit_bits};
  }

  // Whether the move has a share in every part of its segment.
  bool IsBusy(const Move& move) const {
    const int32_t unit = atoms_.subs[segments_[move.segment].sub].unit_bits;
    return move.hi / unit - move.lo / unit >= PartsOf(move).count();
  }

  // Notes moves at work in every slice.
  void AddBusy(const Move& move) {
    if (!busy_stages_.empty() && busy_stages_.back() == move.stage) return;
    if (PartsOf(move).count() == schedule_.slices && IsBusy(move)) {
      busy_stages_.push_back(move.stage);
    }
  }

  // Notes the cycles of the others in which no busy move is at work.
  void AddSome(const Move& move) {
    const auto after = std::upper_bound(busy_stages_.begin(), busy_stages_.end(), move.stage);
    const bool covered = after != busy_stages_.begin() && *(after - 1) == move.stage;
    if (covered) return;
    const SegmentParts parts = PartsOf(move);
    for (int64_t p = 0; p < parts.count(); ++p) {
      if (parts.RangeOf({move.lo, move.hi}, p).size() == 0) continue;
      const int64_t cycle = move.stage + parts.SliceOf(p);
      if (!Busy(cycle)) some_.push_back(cycle);
    }
  }

  bool Busy(int64_t cycle) const {
    const auto after = std::upper_bound(busy_stages_.begin(), busy_stages_.end(), cycle);
    return after != busy_stages_.begin() && cycle - *(after - 1) < schedule_.slices;
  }

  const std::vector<Move>& moves_;
  const std::vector<Segment>& segments_;
  const Schedule& schedule_;
  const Atoms& atoms_;
  std::vector<int64_t> busy_stages_;  // rising
  std::vector<int64_t> some_;         // cycles
};

}  // namespace

int64_t CountOperations(const PairList& list, const std::vector<Move>& moves,
                        const std::vector<Segment>& segments, const Schedule& schedule,
                        const Atoms& atoms, Budget& budget) {
  CycleCounter cycles(moves, segments, schedule, atoms);
  int64_t operations = 0;
  std::vector<int32_t> of_pair;
  for (const PairWork& pair : list.pairs) {
    if (budget.Spent()) break;
    if (pair.from == pair.to) continue;
    of_pair.assign(list.order.begin() + pair.first, list.order.begin() + pair.first + pair.count);
    const auto place = [&](int32_t m) { return std::make_pair(moves[m].round, moves[m].stage); };
    std::sort(of_pair.begin(), of_pair.end(),
              [&](int32_t a, int32_t b) { return place(a) < place(b); });
    for (size_t begin = 0, end = 0; begin < of_pair.size(); begin = end) {
      const int32_t round = moves[of_pair[begin]].round;
      while (end < of_pair.size() && moves[of_pair[end]].round == round) ++end;
      operations += cycles.Count(absl::MakeConstSpan(of_pair).subspan(begin, end - begin));
    }
  }
  return operations;
}

}  // namespace remesh
