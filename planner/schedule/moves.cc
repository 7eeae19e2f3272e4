// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/moves.h"

#include "planner/schedule/cuts.h"
#include "planner/schedule/segment_moves.h"
#include "planner/schedule/striping.h"

namespace remesh {

void MakeOptimalMoves(const DemandClasses& demand, const std::vector<Route>& routes,
                      const Rational& t0, const Network& network, PlanDraft& draft) {
  const std::vector<RoutedSegment> segments = CutSubs(demand, routes, draft);
  Striping striping(network);
  SegmentMover mover(network, striping, draft);
  for (const RoutedSegment& one : segments) {
    if (one.edges != nullptr) mover.AddDemands(one.segment, *one.edges);
  }
  striping.Solve(t0);
  for (const RoutedSegment& one : segments) mover.MakeMoves(one.segment, one.edges);
}

}  // namespace remesh
