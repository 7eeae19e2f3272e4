// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/messages.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "absl/types/span.h"
#include "planner/schedule/segment_parts.h"

namespace remesh::planner {
namespace {

// A set of small numbers, one bit for each.
class Numbers {
 public:
  void Add(int64_t number) {
    const auto word = static_cast<size_t>(number / 64);
    if (word >= words_.size()) words_.resize(word + 1);
    words_[word] |= uint64_t{1} << (number % 64);
    begin_ = std::min(begin_, word);
    end_ = std::max(end_, word + 1);
  }
  // Empties the set and returns how many numbers were in it.
  int64_t TakeCount() {
    int64_t count = 0;
    for (; begin_ < end_; ++begin_) count += std::popcount(std::exchange(words_[begin_], 0));
    begin_ = SIZE_MAX;
    end_ = 0;
    return count;
  }

 private:
  std::vector<uint64_t> words_;
  size_t begin_ = SIZE_MAX, end_ = 0;  // the words outside are 0
};

// Counts the cycles in which the moves of one pair and round send something. A move of hop l whose
// segment has a part in every turn, and that has a share in every part, works in the cycles l .. l
// + parts - 1. Only for other moves are the parts looked up, and not in cycles in which such a move
// works anyway.
class CycleCounter {
 public:
  CycleCounter(const std::vector<Move>& moves, const std::vector<Segment>& segments,
               const Schedule& schedule, const Atoms& atoms, Budget& budget)
      : moves_(moves), segments_(segments), schedule_(schedule), atoms_(atoms), budget_(budget) {}

  // REQUIRES: moves by rising hop. The result must not be used once the budget is spent.
  int64_t Count(absl::Span<const int32_t> moves) {
    if (moves.size() == 1 && IsBusy(moves_[moves[0]])) return CountOfParts(moves_[moves[0]]);
    const int64_t parts = schedule_.parts;
    busy_hops_.clear();
    for (const int32_t m : moves) AddBusy(moves_[m]);
    for (const int32_t m : moves) AddSome(moves_[m]);
    int64_t count = some_.TakeCount();
    for (size_t i = 0; i < busy_hops_.size(); ++i) {
      count += i == 0 ? parts : std::min(parts, busy_hops_[i] - busy_hops_[i - 1]);
    }
    return count;
  }

 private:
  SegmentParts PartsOf(const Move& move) const {
    const Segment& segment = segments_[move.segment];
    return {schedule_, segment, move.segment, atoms_.tapes[segment.tape].unit_bits};
  }

  // The same as PartsOf(move).count(), in a fraction of the time.
  int64_t CountOfParts(const Move& move) const {
    return schedule_.PartsOf(segments_[move.segment].size());
  }

  // Whether the move has a share in every part of its segment.
  bool IsBusy(const Move& move) const {
    const int32_t unit = atoms_.tapes[segments_[move.segment].tape].unit_bits;
    return move.hi / unit - move.lo / unit >= CountOfParts(move);
  }

  // Notes the move if it works in every turn.
  void AddBusy(const Move& move) {
    if (budget_.Spent()) return;
    if (!busy_hops_.empty() && busy_hops_.back() == move.hop) return;
    if (CountOfParts(move) == schedule_.parts && IsBusy(move)) busy_hops_.push_back(move.hop);
  }

  // Notes the cycles of another move in which no busy move works.
  void AddSome(const Move& move) {
    const auto after = std::upper_bound(busy_hops_.begin(), busy_hops_.end(), move.hop);
    const bool covered = after != busy_hops_.begin() && *(after - 1) == move.hop;
    if (covered) return;
    const SegmentParts parts = PartsOf(move);
    const bool is_busy = IsBusy(move);
    for (int64_t p = 0; p < parts.count() && !budget_.Spent(); ++p) {
      if (!is_busy && parts.RangeOf({move.lo, move.hi}, p).size() == 0) continue;
      const int64_t cycle = move.hop + parts.TurnOf(p);
      if (!Busy(cycle)) some_.Add(cycle);
    }
  }

  bool Busy(int64_t cycle) const {
    const auto after = std::upper_bound(busy_hops_.begin(), busy_hops_.end(), cycle);
    return after != busy_hops_.begin() && cycle - *(after - 1) < schedule_.parts;
  }

  const std::vector<Move>& moves_;
  const std::vector<Segment>& segments_;
  const Schedule& schedule_;
  const Atoms& atoms_;
  std::vector<int64_t> busy_hops_;  // rising
  Numbers some_;                    // cycles
  Budget& budget_;
};

// In a plan of one window every pair sends one message.
int64_t CountPairs(const PairList& list, Budget& budget) {
  int64_t count = 0;
  for (const PairWork& pair : list.pairs) {
    if (budget.Spent()) break;
    if (pair.from != pair.to && pair.bits > 0) ++count;
  }
  return count;
}

}  // namespace

int64_t CountMessages(const PairList& list, const std::vector<Move>& moves,
                      const std::vector<Segment>& segments, const Schedule& schedule,
                      const Atoms& atoms, Budget& budget) {
  if (schedule.windows() == 1) return CountPairs(list, budget);
  CycleCounter cycles(moves, segments, schedule, atoms, budget);
  int64_t messages = 0;
  const auto is_before = [&](int32_t a, int32_t b) {
    return std::tie(moves[a].round, moves[a].hop) < std::tie(moves[b].round, moves[b].hop);
  };
  const PairsAhead ahead(list, moves, segments);
  std::vector<int32_t> sorted;
  for (const PairWork& pair : list.pairs) {
    if (budget.Spent()) break;
    const auto i = static_cast<size_t>(&pair - list.pairs.data());
    ahead.Ask(i);
    ahead.ForEachSoon(i, [&](const Move& move) {
      __builtin_prefetch(&atoms.tapes[segments[move.segment].tape]);
    });
    if (pair.from == pair.to) continue;
    absl::Span<const int32_t> of_pair =
        absl::MakeConstSpan(list.order).subspan(pair.first, pair.count);
    if (!std::is_sorted(of_pair.begin(), of_pair.end(), is_before)) {
      sorted.assign(of_pair.begin(), of_pair.end());
      std::sort(sorted.begin(), sorted.end(), is_before);
      of_pair = sorted;
    }
    for (size_t begin = 0, end = 0; begin < of_pair.size() && !budget.Spent(); begin = end) {
      const int32_t round = moves[of_pair[begin]].round;
      while (end < of_pair.size() && moves[of_pair[end]].round == round) ++end;
      messages += cycles.Count(of_pair.subspan(begin, end - begin));
    }
  }
  return messages;
}

}  // namespace remesh::planner
