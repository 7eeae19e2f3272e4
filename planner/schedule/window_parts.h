// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/moves/moves.h"
#include "planner/network/network.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/timeline.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The work of the busiest devices.
struct Busiest {
  int64_t bits = 0;   // both directions and copies in place together
  int64_t moves = 0;  // with an end on the device
};
Busiest FindBusiest(const Network& network, const std::vector<Move>& moves, Budget& budget);

// How many parts and rounds a plan asks for, before any schedule is tried.
class WindowParts {
 public:
  struct Limits {
    int64_t window_bits = 0;
    int64_t parts_min = 1;
    bool is_short = false;  // see PriceLimits
  };
  // `schedule` is complete except for parts and rounds; its hops are those of a single round.
  WindowParts(const Schedule& schedule, const Busiest& busiest, const Limits& limits)
      : schedule_(schedule), busiest_(busiest), limits_(limits) {}

  // The fewest parts that keep windows over `rounds` rounds within their limit.
  int64_t PartsFor(int64_t rounds) const;
  // The fewest rounds in which windows need no more than so many parts.
  int64_t RoundsFor(int64_t parts) const;
  // The most parts that are tried: without relays the fewest alone. Where that is one part, every
  // pair sends in all turns, and the cost needs no list of those that do not.
  int64_t MostParts(int64_t least, const Schedule& schedule) const;

  // In one round, a pair sends a message in each of the windows that the limit on their bytes asks
  // for; in more rounds, it sends fewer and larger ones. There are no fewer of them where memory
  // asks for more windows. Looks at all heavy pairs, and at those across hosts alone, whose
  // messages cost most.
  int64_t RoundsForLargeMessages(const std::vector<PairWork>& pairs, const HeavyPairs& heavy,
                                 const Network& network) const;

 private:
  int64_t RoomFor(int64_t rounds) const;

  const Schedule schedule_;
  const Busiest busiest_;
  const Limits limits_;
};

}  // namespace remesh::planner
