// SPDX-License-Identifier: Apache-2.0
#include "planner/moves/optimal_moves.h"

#include <algorithm>
#include <utility>

#include "planner/moves/cuts.h"
#include "planner/moves/segment_moves.h"
#include "planner/moves/striping.h"

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

// About how many moves there will be: one for each needer of each segment, and some that are cut.
size_t ExpectedMoves(const Atoms& atoms, const std::vector<Segment>& segments, Budget& budget) {
  size_t expected = 0;
  for (const Segment& segment : segments) {
    if (budget.Spent()) break;
    expected += atoms.groups[atoms.tapes[segment.tape].needers].size();
  }
  return expected + expected / 8;
}

std::vector<Move> MovesOf(const Atoms& atoms, const RoutedSegments& routed, const Rational& t,
                          const Network& network, std::vector<bool> crowded, Dealing dealing,
                          Budget& budget) {
  Striping striping(network, dealing);
  const size_t expected = ExpectedMoves(atoms, routed.segments, budget);
  SegmentMover mover(atoms, routed.segments, network, striping, std::move(crowded), expected);
  for (size_t s = 0; s < routed.segments.size(); ++s) {
    if (budget.Spent()) return {};
    if (routed.edges[s] != nullptr) mover.AddDemands(static_cast<int32_t>(s), *routed.edges[s]);
  }
  striping.Solve(t, budget);
  for (size_t s = 0; s < routed.segments.size(); ++s) {
    if (budget.Spent()) return {};
    mover.Add(static_cast<int32_t>(s), routed.edges[s]);
  }
  return std::move(mover).Take(budget);
}

}  // namespace

Moves MakeOptimalMoves(const Atoms& atoms, const DemandClasses& demand, const RoutePlan& routes,
                       const Network& network, Budget& budget, Dealing dealing) {
  RoutedSegments routed = CutTapes(atoms, demand, routes.routes, budget);
  Moves moves;
  if (budget.SpentNow()) return moves;
  moves.moves = MovesOf(atoms, routed, routes.t, network, {}, dealing, budget);
  if (budget.SpentNow()) return moves;
  std::vector<bool> crowded = CrowdedHosts(moves.moves, routes.t, network, budget);
  if (budget.SpentNow()) return moves;
  if (std::find(crowded.begin(), crowded.end(), true) != crowded.end()) {
    moves.moves = std::vector<Move>();
    moves.moves = MovesOf(atoms, routed, routes.t, network, std::move(crowded), dealing, budget);
  }
  moves.segments = std::move(routed.segments);
  return moves;
}

}  // namespace remesh::planner
