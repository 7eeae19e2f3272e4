// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/relay_areas.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/check.h"
#include "base/int_math.h"
#include "planner/schedule/first_fit.h"
#include "planner/values/packing.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

using Key = std::tuple<int32_t, int32_t, int64_t>;

Key KeyOf(const StagedPiece& piece) { return {piece.device, piece.segment, piece.stripe.lo}; }
bool IsBefore(const StagedPiece& piece, const Key& key) { return KeyOf(piece) < key; }

// All pieces that moves bring to staging, by device, segment, stripe.
std::vector<StagedPiece> PiecesBrought(const MovedSegments& moved, absl::Span<const Move> moves,
                                       Budget& budget) {
  std::vector<StagedPiece> pieces;
  for (const Move& move : moves) {
    if (budget.Spent()) return {};
    if (move.to_space != Space::kStaging || move.lo == move.hi) continue;
    const int64_t comes = int64_t{move.hop} * moved.schedule.rounds + move.round;
    ForEachPiece(moved.CutsOf(move.segment), {move.lo, move.hi}, [&](Interval piece) {
      pieces.push_back({.device = move.to_device,
                        .segment = move.segment,
                        .stripe = piece,
                        .comes = comes,
                        .leaves = comes});
    });
  }
  StableSort(
      pieces, [](const auto& a, const auto& b) { return KeyOf(a) < KeyOf(b); }, budget);
  return pieces;
}

void NoteLeaving(const MovedSegments& moved, const Move& move, std::vector<StagedPiece>& pieces) {
  const int64_t leaves = int64_t{move.hop} * moved.schedule.rounds + move.round;
  ForEachPiece(moved.CutsOf(move.segment), {move.lo, move.hi}, [&](Interval stripe) {
    const Key key{move.from_device, move.segment, stripe.lo};
    const auto piece = std::lower_bound(pieces.begin(), pieces.end(), key, IsBefore);
    if (piece == pieces.end() || KeyOf(*piece) != key) return;
    piece->leaves = std::max(piece->leaves, leaves);
  });
}

// The number of parts that are staged at once: the least k such that part p + k arrives no earlier
// than part p may be overwritten. Part p + k arrives at least floor(k * turns / parts) turns later.
int64_t SlotsOf(const StagedPiece& piece, const Schedule& schedule, int64_t parts) {
  const int64_t turns = CeilDiv(piece.leaves + 2 - piece.comes, schedule.rounds);
  return std::min(parts, CeilDiv(turns * parts, schedule.parts));
}

// A piece and the windows in which its slots belong to it.
struct Stay {
  int64_t first = 0;
  int64_t end = 0;
  StagedPiece* piece = nullptr;
};

Stay StayOf(const MovedSegments& moved, StagedPiece& piece) {
  const SegmentParts parts = moved.PartsOf(piece.segment);
  const int64_t rounds = moved.schedule.rounds;
  piece.slots = SlotsOf(piece, moved.schedule, parts.count());
  piece.slot_bytes = std::min(StoredBytes(moved.PartBitsMax(piece.segment, piece.stripe)),
                              FirstFit::kMost / piece.slots);
  return {parts.TurnOf(0) * rounds + piece.comes,
          parts.TurnOf(parts.count() - 1) * rounds + piece.leaves + 2, &piece};
}

// The bytes of one device's area.
int64_t LayOutArea(const MovedSegments& moved, absl::Span<StagedPiece> pieces, Budget& budget) {
  std::vector<Stay> stays;
  for (StagedPiece& piece : pieces) {
    if (budget.Spent()) return 0;
    stays.push_back(StayOf(moved, piece));
  }
  StableSort(
      stays, [](const Stay& a, const Stay& b) { return a.first < b.first; }, budget);
  const auto later = [](const Stay& a, const Stay& b) { return a.end > b.end; };
  std::priority_queue<Stay, std::vector<Stay>, decltype(later)> there(later);
  FirstFit area;
  for (const Stay& stay : stays) {
    if (budget.Spent()) break;
    for (; !there.empty() && there.top().end <= stay.first; there.pop()) {
      const StagedPiece& gone = *there.top().piece;
      area.Give(gone.begin, gone.slots * gone.slot_bytes);
    }
    stay.piece->begin = area.Take(stay.piece->slots * stay.piece->slot_bytes);
    there.push(stay);
  }
  return area.most();
}

}  // namespace

const StagedPiece& RelayAreas::PieceAt(int32_t device, int32_t segment, int64_t lo) const {
  const Key key{device, segment, lo};
  const auto piece = std::lower_bound(pieces.begin(), pieces.end(), key, IsBefore);
  REMESH_CHECK(piece != pieces.end() && KeyOf(*piece) == key);
  return *piece;
}

RelayAreas LayOutRelays(const MovedSegments& moved, absl::Span<const Move> moves,
                        int64_t device_count, Budget& budget) {
  RelayAreas areas{.pieces = PiecesBrought(moved, moves, budget),
                   .bytes = std::vector<int64_t>(device_count, 0)};
  if (areas.pieces.empty()) return areas;
  for (const Move& move : moves) {
    if (budget.Spent()) return areas;
    if (move.from_space == Space::kStaging) NoteLeaving(moved, move, areas.pieces);
  }
  for (auto begin = areas.pieces.begin(); begin != areas.pieces.end() && !budget.Spent();) {
    const auto end = std::find_if(begin, areas.pieces.end(),
                                  [&](const auto& piece) { return piece.device != begin->device; });
    areas.bytes[begin->device] = LayOutArea(moved, absl::MakeSpan(&*begin, end - begin), budget);
    begin = end;
  }
  return areas;
}

}  // namespace remesh::planner
