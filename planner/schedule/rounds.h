// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/moves/moves.h"
#include "planner/network/links.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// All moves between one ordered pair of devices (or in place, when they are equal). They form one
// message in each window.
struct PairWork {
  int32_t from = 0;
  int32_t to = 0;
  int64_t bits = 0;
  int32_t first = 0;  // its moves are order[first] .. order[first + count - 1]
  int32_t count = 0;
};

struct PairList {
  std::vector<PairWork> pairs;  // largest first, ties by devices
  std::vector<int32_t> order;   // indices of moves, pair by pair
};

// Asks memory for what a walk over all pairs is about to read. The moves of a pair lie far apart, so
// that the walk would wait for most of them. REQUIRES: `list` is of `moves`, they of `segments`.
class PairsAhead {
 public:
  PairsAhead(const PairList& list, const std::vector<Move>& moves,
             const std::vector<Segment>& segments)
      : list_(list), moves_(moves), segments_(segments) {}

  // To be called before the moves of pair i are read, one pair after another.
  void Ask(size_t i) const {
    ForEachMove(i + 2 * kPairs, [](const Move& move) {
      const char* const bytes = reinterpret_cast<const char*>(&move);
      __builtin_prefetch(bytes);
      __builtin_prefetch(bytes + sizeof(Move) - 1);
    });
    ForEachMove(i + kPairs,
                [&](const Move& move) { __builtin_prefetch(&segments_[move.segment]); });
  }

  // Visits moves of a pair soon after pair i, of which the moves and segments have come.
  template <typename Visit>
  void ForEachSoon(size_t i, const Visit& visit) const {
    ForEachMove(i + kPairs / 2, visit);
  }

 private:
  static constexpr size_t kPairs = 8;
  static constexpr int32_t kMovesOfPair = 32;  // at most

  template <typename Visit>
  void ForEachMove(size_t i, const Visit& visit) const {
    if (i >= list_.pairs.size()) return;
    const PairWork& pair = list_.pairs[i];
    const int32_t count = std::min(pair.count, kMovesOfPair);
    for (int32_t k = 0; k < count; ++k) visit(moves_[list_.order[pair.first + k]]);
  }

  const PairList& list_;
  const std::vector<Move>& moves_;
  const std::vector<Segment>& segments_;
};

// The result must not be used once the budget is spent.
PairList CollectPairs(const std::vector<Move>& moves, Budget& budget = Budget::Unlimited());

// Heavy pairs are those that carry all but a hundredth of the bits that cross hosts, and of the
// bits that move inside them.
struct HeavyPairs {
  int64_t count = 0;           // of all
  int64_t most_of_device = 0;  // that one device sends to, or receives from
};
HeavyPairs CountHeavyPairs(const std::vector<PairWork>& pairs, const Network& network,
                           Budget& budget = Budget::Unlimited());

// Puts messages into rounds under limits on bits and messages per device.
class RoundPacker {
 public:
  // No device gets more than `bits_max` bits in a round (unless by a single move), nor sends or
  // receives more than `messages_max` messages. Places nothing more once the budget is spent.
  RoundPacker(const Links& links, int64_t bits_max, int64_t messages_max,
              Budget& budget = Budget::Unlimited());

  // What a message adds to a round: bits on its devices in every part, and its shares of the
  // sender's and of the receiver's link.
  struct Load {
    int64_t bits = 0;
    int64_t out = 0;
    int64_t in = 0;
  };

  // Returns the round for a message, never one of `taken`: of the first `preferred` rounds the one
  // in which its two links are least busy, else the first with room, else a new one. Ties go to
  // round (from + to) mod preferred and those that follow, which spreads an all-to-all of equal
  // messages perfectly.
  int32_t Place(int32_t from, int32_t to, const Load& load, int64_t preferred,
                absl::Span<const int32_t> taken = {});

  // The same, but puts the message into `round` if there is room.
  int32_t PlaceIn(int32_t round, int32_t from, int32_t to, const Load& load, int64_t preferred,
                  absl::Span<const int32_t> taken);

  int32_t rounds() const { return static_cast<int32_t>(rounds_.size()); }

 private:
  struct Round {
    std::vector<int64_t> bits;      // per device, all together
    std::vector<int64_t> busy;      // per link: shares
    std::vector<int32_t> sends;     // per device
    std::vector<int32_t> receives;  // per device
  };
  bool Fits(const Round& round, int32_t from, int32_t to, int64_t bits) const;
  int32_t LeastLoaded(int32_t from, int32_t to, const Load& load, int64_t preferred,
                      absl::Span<const int32_t> taken) const;
  void Put(int32_t round, int32_t from, int32_t to, const Load& load);
  void AddRounds(int64_t count);

  const Links& links_;
  const Network& network_;
  const int64_t bits_max_;
  const int64_t messages_max_;
  Budget& budget_;
  std::vector<Round> rounds_;
};

}  // namespace remesh::planner
