// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/make_moves.h"

#include <algorithm>
#include <limits>

#include "planner/schedule/naive_moves.h"
#include "planner/schedule/optimal_moves.h"

namespace remesh::planner {
namespace {

// A hundred thousandth of the bits that the slowest NIC or uplink can carry in time `t`.
int64_t SlackBits(const Rational& t, const Network& network) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Network::HostNode& host : network.hosts) least = std::min(least, host.nic_capacity);
  for (const Network::DomainNode& domain : network.domains) {
    least = std::min({least, domain.egress, domain.ingress});
  }
  return t.CeilTimes(least) / 100000;
}

Moves MovesOf(Strategy strategy, const Atoms& atoms, const DemandClasses& demand,
              const RoutePlan& routes, const Network& network, Budget& budget) {
  switch (strategy) {
    case Strategy::kP2p:
      return MakeP2pMoves(atoms, network, budget);
    case Strategy::kGather:
      return MakeGatherMoves(atoms, network, budget);
    case Strategy::kOptimal:
      break;
  }
  return MakeOptimalMoves(atoms, demand, routes, network, budget);
}

}  // namespace

Moves MakeMoves(Strategy strategy, const Atoms& atoms, const DemandClasses& demand,
                const Routings& routings, const Network& network, Budget& budget) {
  Moves moves = MovesOf(strategy, atoms, demand, routings.routes, network, budget);
  moves.slack_bits = SlackBits(routings.hosts.t0, network);
  return moves;
}

}  // namespace remesh::planner
