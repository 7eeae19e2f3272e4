// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/move_pieces.h"

#include <algorithm>
#include <numeric>

#include "planner/values/resize.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// The move that piece i is cut off: the given one, or the piece before.
size_t RestOf(const std::vector<MovePiece>& pieces, size_t i, size_t given) {
  const bool follows = i > 0 && pieces[i - 1].move == pieces[i].move;
  return follows ? given + i - 1 : static_cast<size_t>(pieces[i].move);
}

// Where each pair's pieces come in PairList::order of the given moves, rising: behind its moves.
std::vector<int32_t> PlacesOf(const std::vector<MovePiece>& pieces, const PairList& list) {
  std::vector<int32_t> places;
  places.reserve(pieces.size());
  for (const MovePiece& piece : pieces) {
    const PairWork& pair = list.pairs[piece.pair];
    places.push_back(pair.first + pair.count);
  }
  return places;
}

// How many of `places`, which rise, are at or before `place`.
int32_t CountUpTo(const std::vector<int32_t>& places, int32_t place) {
  return static_cast<int32_t>(std::upper_bound(places.begin(), places.end(), place) -
                              places.begin());
}

}  // namespace

void CutOff(const std::vector<MovePiece>& pieces, std::vector<Move>& moves) {
  const size_t given = moves.size();
  if (moves.capacity() < given + pieces.size()) Reserve(moves, given + pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    Move& rest = moves[RestOf(pieces, i, given)];
    Move piece = rest;
    rest.hi = piece.lo = pieces[i].lo;
    piece.round = pieces[i].round;
    moves.push_back(piece);
  }
}

void JoinAgain(const std::vector<MovePiece>& pieces, std::vector<Move>& moves) {
  const size_t given = moves.size() - pieces.size();
  for (size_t i = pieces.size(); i-- > 0; moves.pop_back()) {
    moves[RestOf(pieces, i, given)].hi = moves.back().hi;
  }
}

void AddToPairs(const std::vector<MovePiece>& pieces, PairList& list, Budget& budget) {
  std::vector<int32_t> places = PlacesOf(pieces, list);
  std::vector<int32_t> by_place = InOrder(pieces.size());
  std::stable_sort(by_place.begin(), by_place.end(),
                   [&](int32_t a, int32_t b) { return places[a] < places[b]; });
  std::sort(places.begin(), places.end());
  const auto given = static_cast<int32_t>(list.order.size());
  std::vector<int32_t> order;
  Reserve(order, given + pieces.size());
  auto from = list.order.begin();
  for (const int32_t piece : by_place) {
    if (budget.SpentNow()) return;
    const auto to = list.order.begin() + list.pairs[pieces[piece].pair].first +
                    list.pairs[pieces[piece].pair].count;
    order.insert(order.end(), from, to);
    from = to;
    order.push_back(given + piece);
  }
  order.insert(order.end(), from, list.order.end());
  list.order = std::move(order);
  for (const MovePiece& piece : pieces) ++list.pairs[piece.pair].count;
  for (PairWork& pair : list.pairs) {
    if (budget.Spent()) return;
    pair.first += CountUpTo(places, pair.first);
  }
}

void TakeFromPairs(const std::vector<MovePiece>& pieces, PairList& list, Budget& budget) {
  const auto given = static_cast<int32_t>(list.order.size() - pieces.size());
  std::vector<int32_t> places;  // of pieces, in the list
  for (size_t i = 0; i < list.order.size() && !budget.Spent(); ++i) {
    if (list.order[i] >= given) places.push_back(static_cast<int32_t>(i));
  }
  std::erase_if(list.order, [&](int32_t move) { return move >= given; });
  for (const MovePiece& piece : pieces) --list.pairs[piece.pair].count;
  for (PairWork& pair : list.pairs) {
    if (budget.Spent()) return;
    pair.first -= CountUpTo(places, pair.first);
  }
}

}  // namespace remesh::planner
