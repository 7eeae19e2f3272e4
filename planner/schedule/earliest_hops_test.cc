// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/earliest_hops.h"

#include <gtest/gtest.h>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

// The hops of one chain of moves in these rounds.
std::vector<int32_t> Hops(const std::vector<int32_t>& rounds) {
  Moves moves;
  std::vector<std::pair<int32_t, int32_t>> path;
  for (size_t i = 0; i < rounds.size(); ++i) {
    path.emplace_back(static_cast<int32_t>(i), static_cast<int32_t>(i) + 1);
  }
  testing::AddChain(800, path, moves);
  for (size_t i = 0; i < rounds.size(); ++i) moves.moves[i].round = rounds[i];
  const int32_t count = SetEarliestHops(1, moves.moves, Budget::Unlimited());
  std::vector<int32_t> hops;
  for (const Move& move : moves.moves) hops.push_back(move.hop);
  EXPECT_EQ(count, *std::max_element(hops.begin(), hops.end()) + 1);
  return hops;
}

TEST(EarliestHopsTest, ALaterRoundPassesOnInTheSameCycle) {
  EXPECT_EQ(Hops({1, 2, 0}), (std::vector<int32_t>{0, 0, 1}));
  EXPECT_EQ(Hops({0, 1, 2, 3}), (std::vector<int32_t>{0, 0, 0, 0}));
}

TEST(EarliestHopsTest, TheSameRoundPassesOnACycleLater) {
  EXPECT_EQ(Hops({0, 0, 0}), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(Hops({3, 2, 1, 0}), (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(EarliestHopsTest, AMoveAwaitsThePiecesThatItPassesOnAndNoOthers) {
  Moves moves;
  moves.segments.push_back({0, 0, 300});
  const auto add = [&](int32_t from, int32_t to, int64_t lo, int64_t hi, int32_t hop,
                       int32_t round) {
    moves.moves.push_back({.from_device = from,
                           .to_device = to,
                           .from_space = hop > 0 ? Space::kTarget : Space::kSource,
                           .hop = hop,
                           .round = round,
                           .lo = lo,
                           .hi = hi});
  };
  add(0, 1, 0, 100, 0, 0);
  add(0, 1, 100, 200, 0, 2);
  add(0, 1, 200, 300, 0, 5);
  add(1, 2, 50, 150, 1, 3);   // after rounds 0 and 2
  add(1, 2, 150, 250, 1, 4);  // after rounds 2 and 5
  EXPECT_EQ(SetEarliestHops(1, moves.moves, Budget::Unlimited()), 2);
  EXPECT_EQ(moves.moves[3].hop, 0);
  EXPECT_EQ(moves.moves[4].hop, 1);
}

}  // namespace
}  // namespace remesh::planner
