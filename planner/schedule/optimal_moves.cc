// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/optimal_moves.h"

#include <algorithm>
#include <utility>

#include "planner/schedule/cuts.h"
#include "planner/schedule/segment_moves.h"
#include "planner/schedule/striping.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

// An excess below one part in this many is not worth another hop.
constexpr int64_t kCrowdedPart = 16;

// Hosts in which the fabric of a device has more to send than any NIC has in time t, and more than
// any device there has to receive, so that other devices could send some of it.
std::vector<bool> CrowdedHosts(const std::vector<Move>& moves, const Rational& t,
                               const Network& network, Budget& budget) {
  std::vector<int64_t> sent(network.host_of.size(), 0);
  std::vector<int64_t> most_got(network.hosts.size(), 0);
  std::vector<int64_t> got(network.host_of.size(), 0);
  for (const Move& move : moves) {
    if (budget.Spent()) return {};
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

std::vector<Move> MovesOf(const Atoms& atoms, const std::vector<RoutedSegment>& routed,
                          const std::vector<Segment>& segments, const Rational& t,
                          const Network& network, std::vector<bool> crowded, Budget& budget) {
  Striping striping(network);
  SegmentMover mover(atoms, segments, network, striping, std::move(crowded));
  for (size_t s = 0; s < routed.size(); ++s) {
    if (budget.Spent()) return {};
    if (routed[s].edges != nullptr) mover.AddDemands(static_cast<int32_t>(s), *routed[s].edges);
  }
  striping.Solve(t, budget);
  for (size_t s = 0; s < routed.size(); ++s) {
    if (budget.Spent()) return {};
    mover.Add(static_cast<int32_t>(s), routed[s].edges);
  }
  return std::move(mover).Take(budget);
}

}  // namespace

Moves MakeOptimalMoves(const Atoms& atoms, const DemandClasses& demand, const RoutePlan& routes,
                       const Network& network, Budget& budget) {
  const std::vector<RoutedSegment> routed = CutTapes(atoms, demand, routes.routes, budget);
  Moves moves;
  Reserve(moves.segments, routed.size());
  for (const RoutedSegment& one : routed) {
    if (budget.Spent()) return moves;
    moves.segments.push_back(one.segment);
  }
  moves.moves = MovesOf(atoms, routed, moves.segments, routes.t, network, {}, budget);
  if (budget.SpentNow()) return moves;
  std::vector<bool> crowded = CrowdedHosts(moves.moves, routes.t, network, budget);
  if (budget.SpentNow()) return moves;
  if (std::find(crowded.begin(), crowded.end(), true) == crowded.end()) return moves;
  moves.moves =
      MovesOf(atoms, routed, moves.segments, routes.t, network, std::move(crowded), budget);
  return moves;
}

}  // namespace remesh::planner
