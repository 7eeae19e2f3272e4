// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/moves.h"

#include <algorithm>
#include <utility>

#include "planner/schedule/cuts.h"
#include "planner/schedule/segment_moves.h"
#include "planner/schedule/striping.h"

namespace remesh {
namespace {

// A little more, one part in so many, is not worth another stage.
constexpr int64_t kCrowdedPart = 16;

// Hosts where the fabric of a device has more to send than any NIC has in time t, and more than
// any device there has to receive: others could send some of it.
std::vector<bool> CrowdedHosts(const std::vector<Move>& moves, const Rational& t,
                               const Network& network) {
  std::vector<int64_t> sent(network.host_of.size(), 0);
  std::vector<int64_t> most_got(network.hosts.size(), 0);
  std::vector<int64_t> got(network.host_of.size(), 0);
  for (const Move& move : moves) {
    const int32_t host = network.host_of[move.to_device];
    if (move.from_device == move.to_device || network.host_of[move.from_device] != host) continue;
    sent[move.from_device] += move.hi - move.lo;
    got[move.to_device] += move.hi - move.lo;
    most_got[host] = std::max(most_got[host], got[move.to_device]);
  }
  std::vector<bool> crowded(network.hosts.size(), false);
  for (size_t d = 0; d < sent.size(); ++d) {
    const int32_t host = network.host_of[d];
    const int64_t most = std::max(t.CeilTimes(network.hosts[host].fabric_capacity), most_got[host]);
    if (sent[d] - most > most / kCrowdedPart) crowded[host] = true;
  }
  return crowded;
}

void MakeMoves(const std::vector<RoutedSegment>& segments, const Rational& t0,
               const Network& network, std::vector<bool> crowded, PlanDraft& draft) {
  Striping striping(network);
  SegmentMover mover(network, striping, std::move(crowded), draft);
  Budget& budget = *draft.budget;
  for (const RoutedSegment& one : segments) {
    if (budget.Spent()) return;
    if (one.edges != nullptr) mover.AddDemands(one.segment, *one.edges);
  }
  striping.Solve(t0, budget);
  for (const RoutedSegment& one : segments) {
    if (budget.Spent()) return;
    mover.MakeMoves(one.segment, one.edges);
  }
}

}  // namespace

void MakeOptimalMoves(const DemandClasses& demand, const std::vector<Route>& routes,
                      const Rational& t0, const Network& network, PlanDraft& draft) {
  const std::vector<RoutedSegment> segments = CutSubs(demand, routes, draft);
  MakeMoves(segments, t0, network, {}, draft);
  if (draft.budget->SpentNow()) return;
  std::vector<bool> crowded = CrowdedHosts(draft.moves, t0, network);
  if (std::find(crowded.begin(), crowded.end(), true) == crowded.end()) return;
  draft.moves.clear();
  MakeMoves(segments, t0, network, std::move(crowded), draft);
}

}  // namespace remesh
