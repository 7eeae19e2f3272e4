// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/int_math.h"
#include "planner/atoms/atoms.h"
#include "planner/moves/moves.h"
#include "planner/schedule/segment_parts.h"
#include "planner/schedule/timeline.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Calls visit(piece) for each range of a stripe between two cuts, which moves whole on every hop.
// `cuts` are those of the stripe's segment, rising.
template <typename Visit>
void ForEachPiece(absl::Span<const int64_t> cuts, Interval stripe, const Visit& visit) {
  int64_t lo = stripe.lo;
  for (auto cut = std::upper_bound(cuts.begin(), cuts.end(), lo);
       cut != cuts.end() && *cut < stripe.hi; ++cut) {
    visit(Interval{lo, *cut});
    lo = *cut;
  }
  visit(Interval{lo, stripe.hi});
}

// The segments of moves with everything that determines their parts: of a whole plan, or of one
// host's program. The object refers to data that must outlive it.
struct MovedSegments {
  const Schedule& schedule;
  absl::Span<const Segment> segments;
  absl::Span<const int32_t> numbers;    // of the segments, in the plan; empty: 0, 1, 2 ...
  std::vector<int32_t> unit_bits;       // by tape
  absl::Span<const int64_t> cuts;       // segment after segment, rising
  absl::Span<const int32_t> cut_begin;  // of segment s: [cut_begin[s], cut_begin[s + 1]); or none

  absl::Span<const int64_t> CutsOf(int32_t segment) const {
    if (cuts.empty()) return {};
    return cuts.subspan(cut_begin[segment], cut_begin[segment + 1] - cut_begin[segment]);
  }
  int32_t NumberOf(int32_t segment) const { return numbers.empty() ? segment : numbers[segment]; }
  SegmentParts PartsOf(int32_t segment) const {
    return {schedule, segments[segment], NumberOf(segment), unit_bits[segments[segment].tape]};
  }

  // The most bits that a stripe takes of any part, once its ends are rounded (AtomGeometry).
  int64_t PartBitsMax(int32_t segment, Interval stripe) const {
    const Segment& whole = segments[segment];
    const int64_t unit = unit_bits[whole.tape];
    const int64_t parts = schedule.PartsOf(whole.size());
    const int64_t units = stripe.hi / unit - stripe.lo / unit;
    const int64_t over = stripe.hi == whole.size() ? whole.size() % unit : 0;
    const int64_t rounding = schedule.slack_bits > 0 ? 2 * std::max(schedule.slack_bits, unit)
                             : unit > 1              ? unit
                                                     : 0;
    return CeilDiv(units, parts) * unit + over + rounding;
  }
};

// The positions at which the stripes of moves cut their segments: for MovedSegments.
struct SegmentCuts {
  std::vector<int64_t> cuts;
  std::vector<int32_t> begin;
};
// The segments of a whole plan. `cuts` are those of its moves.
MovedSegments SegmentsOfPlan(const Schedule& schedule, const std::vector<Segment>& segments,
                             const SegmentCuts& cuts, const std::vector<Tape>& tapes);

// The result must not be used once the budget is spent.
SegmentCuts CutsOfMoves(const std::vector<Move>& moves, const std::vector<Segment>& segments,
                        Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
