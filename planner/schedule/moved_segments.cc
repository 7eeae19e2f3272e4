// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/moved_segments.h"

#include <functional>
#include <utility>

#include "planner/values/stable_order.h"

namespace remesh::planner {

MovedSegments SegmentsOfPlan(const Schedule& schedule, const std::vector<Segment>& segments,
                             const SegmentCuts& cuts, const std::vector<Tape>& tapes) {
  MovedSegments moved{.schedule = schedule,
                      .segments = segments,
                      .numbers = {},
                      .unit_bits = {},
                      .cuts = cuts.cuts,
                      .cut_begin = cuts.begin};
  for (const Tape& tape : tapes) moved.unit_bits.push_back(tape.unit_bits);
  return moved;
}

SegmentCuts CutsOfMoves(const std::vector<Move>& moves, const std::vector<Segment>& segments,
                        Budget& budget) {
  std::vector<std::pair<int32_t, int64_t>> places;
  for (const Move& move : moves) {
    if (budget.Spent()) return {};
    for (const int64_t at : {move.lo, move.hi}) {
      if (at > 0 && at < segments[move.segment].size()) places.emplace_back(move.segment, at);
    }
  }
  SegmentCuts cuts;
  if (places.empty()) return cuts;
  StableSort(places, std::less<>(), budget);
  if (budget.SpentNow()) return {};
  places.erase(std::unique(places.begin(), places.end()), places.end());
  cuts.begin.resize(segments.size() + 1, 0);
  for (const auto& [segment, at] : places) {
    ++cuts.begin[segment + 1];
    cuts.cuts.push_back(at);
  }
  for (size_t s = 0; s < segments.size(); ++s) cuts.begin[s + 1] += cuts.begin[s];
  return cuts;
}

}  // namespace remesh::planner
