// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/move_pieces.h"

#include <gtest/gtest.h>

#include <random>

namespace remesh::planner {
namespace {

// Moves between few devices, so that pairs have many.
std::vector<Move> RandomMoves(std::mt19937_64& random) {
  std::vector<Move> moves;
  for (int i = 0; i < 200; ++i) {
    moves.push_back({.segment = i,
                     .from_device = static_cast<int32_t>(random() % 4),
                     .to_device = static_cast<int32_t>(random() % 4),
                     .hi = 10 + static_cast<int64_t>(random() % 100)});
  }
  return moves;
}

// Up to three pieces of one move in eight, pair by pair.
std::vector<MovePiece> RandomPieces(const std::vector<Move>& moves, const PairList& list,
                                    std::mt19937_64& random) {
  std::vector<MovePiece> pieces;
  for (size_t p = 0; p < list.pairs.size(); ++p) {
    const PairWork& pair = list.pairs[p];
    for (int32_t i = pair.first; i < pair.first + pair.count; ++i) {
      if (random() % 8 != 0) continue;
      const int32_t m = list.order[i];
      for (int64_t lo = moves[m].lo + 3; lo < moves[m].lo + 10; lo += 3) {
        pieces.push_back({.move = m, .pair = static_cast<int32_t>(p), .round = 1, .lo = lo});
      }
    }
  }
  return pieces;
}

void ExpectEqual(const PairList& a, const PairList& b) {
  EXPECT_EQ(a.order, b.order);
  ASSERT_EQ(a.pairs.size(), b.pairs.size());
  for (size_t i = 0; i < a.pairs.size(); ++i) {
    EXPECT_EQ(a.pairs[i].from, b.pairs[i].from);
    EXPECT_EQ(a.pairs[i].to, b.pairs[i].to);
    EXPECT_EQ(a.pairs[i].first, b.pairs[i].first);
    EXPECT_EQ(a.pairs[i].count, b.pairs[i].count);
  }
}

TEST(MovePiecesTest, PiecesAdjoinAndBelongToTheirPairs) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE(trial);
    const std::vector<Move> given = RandomMoves(random);
    const PairList given_list = CollectPairs(given);
    const std::vector<MovePiece> pieces = RandomPieces(given, given_list, random);
    std::vector<Move> moves = given;
    PairList list = given_list;
    CutOff(pieces, moves);
    AddToPairs(pieces, list, Budget::Unlimited());
    ASSERT_EQ(moves.size(), given.size() + pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_EQ(moves[given.size() + i].lo, pieces[i].lo);
      EXPECT_EQ(moves[given.size() + i].round, 1);
      EXPECT_LE(moves[pieces[i].move].hi, pieces[i].lo);
    }
    ExpectEqual(list, CollectPairs(moves));

    JoinAgain(pieces, moves);
    TakeFromPairs(pieces, list, Budget::Unlimited());
    EXPECT_EQ(moves, given);
    ExpectEqual(list, given_list);
  }
}

}  // namespace
}  // namespace remesh::planner
