// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/moved_segments.h"

#include <algorithm>
#include <numeric>

namespace remesh::planner {

MovedSegments SegmentsOfPlan(const Schedule& schedule, const std::vector<Segment>& segments,
                             const SegmentCuts& cuts, const std::vector<Tape>& tapes) {
  MovedSegments moved{.schedule = schedule,
                      .segments = segments,
                      .numbers = {},
                      .unit_bits = {},
                      .cuts = cuts.cuts,
                      .cut_begin = cuts.begin};
  moved.unit_bits.reserve(tapes.size());
  for (const Tape& tape : tapes) moved.unit_bits.push_back(tape.unit_bits);
  return moved;
}

namespace {

// Calls visit(segment, place) for every end of a move that lies inside its segment. Stops early
// once the budget is spent.
template <typename Visit>
void ForEachCut(const std::vector<Move>& moves, const std::vector<Segment>& segments,
                Budget& budget, const Visit& visit) {
  for (const Move& move : moves) {
    if (budget.Spent()) return;
    for (const int64_t at : {move.lo, move.hi}) {
      if (at > 0 && at < segments[move.segment].size()) visit(move.segment, at);
    }
  }
}

// Sorts the cuts of each segment, [begin[s], ends[s]), and removes repetitions.
void SortEach(const std::vector<int32_t>& ends, SegmentCuts& cuts, Budget& budget) {
  auto end = cuts.cuts.begin();
  for (size_t s = 0; s + 1 < cuts.begin.size(); ++s) {
    if (budget.Spent()) return;
    const auto first = cuts.cuts.begin() + cuts.begin[s];
    const auto last = cuts.cuts.begin() + ends[s];
    std::sort(first, last);
    cuts.begin[s] = static_cast<int32_t>(end - cuts.cuts.begin());
    end = std::unique_copy(first, last, end);
  }
  cuts.begin.back() = static_cast<int32_t>(end - cuts.cuts.begin());
  cuts.cuts.erase(end, cuts.cuts.end());
}

}  // namespace

// Each segment has few cuts, so they are collected by segment and sorted there.
SegmentCuts CutsOfMoves(const std::vector<Move>& moves, const std::vector<Segment>& segments,
                        Budget& budget) {
  SegmentCuts cuts{.cuts = {}, .begin = std::vector<int32_t>(segments.size() + 1, 0)};
  ForEachCut(moves, segments, budget, [&](int32_t s, int64_t) { ++cuts.begin[s + 1]; });
  std::partial_sum(cuts.begin.begin(), cuts.begin.end(), cuts.begin.begin());
  if (budget.SpentNow() || cuts.begin.back() == 0) return {};
  cuts.cuts.resize(cuts.begin.back());
  std::vector<int32_t> ends = cuts.begin;
  ForEachCut(moves, segments, budget, [&](int32_t s, int64_t at) {
    // Most repetitions follow at once, since a stripe goes to one device after another.
    const auto known = cuts.cuts.begin() + std::max(cuts.begin[s], ends[s] - 2);
    const auto end = cuts.cuts.begin() + ends[s];
    if (std::find(known, end, at) == end) cuts.cuts[ends[s]++] = at;
  });
  if (budget.SpentNow()) return {};
  SortEach(ends, cuts, budget);
  if (budget.SpentNow()) return {};
  return cuts;
}

}  // namespace remesh::planner
