// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/moves/moves.h"
#include "planner/schedule/rounds.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// A piece that is cut off a move, to have a round of its own: from `lo` on, up to the next piece of
// the same move or its end. Pieces of a move follow each other by rising lo.
struct MovePiece {
  int32_t move = 0;
  int32_t pair = 0;  // of the move, in its PairList
  int32_t round = 0;
  int64_t lo = 0;
};

// Cuts the pieces off their moves, in place, since there may be millions of moves and few pieces:
// these become moves at the end of `moves`, and of their pairs in `list`. The results must not be
// used once the budget is spent.
void CutOff(const std::vector<MovePiece>& pieces, std::vector<Move>& moves);
void AddToPairs(const std::vector<MovePiece>& pieces, PairList& list, Budget& budget);

// The inverse.
void JoinAgain(const std::vector<MovePiece>& pieces, std::vector<Move>& moves);
void TakeFromPairs(const std::vector<MovePiece>& pieces, PairList& list, Budget& budget);

}  // namespace remesh::planner
