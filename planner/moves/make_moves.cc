// SPDX-License-Identifier: Apache-2.0
#include "planner/moves/make_moves.h"

#include <algorithm>
#include <limits>

#include "absl/types/span.h"
#include "planner/moves/optimal_moves.h"
#include "planner/moves/segment_moves.h"

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

// Adds a move of the whole segment from one device to another.
void AddWhole(int32_t segment, int32_t from, int32_t to, Space from_space, int hop, Space to_space,
              Moves& moves) {
  moves.moves.push_back({.segment = segment,
                         .from_device = from,
                         .to_device = to,
                         .from_space = from_space,
                         .to_space = to_space,
                         .hop = hop,
                         .lo = 0,
                         .hi = moves.segments[segment].size()});
}

// Every needer pulls the whole of `tape` from one holder.
void PullTape(int32_t index, const Atoms& atoms, const Network& network, Moves& moves) {
  const Tape tape = atoms.tapes[index];
  const int32_t segment = static_cast<int32_t>(moves.segments.size());
  moves.segments.push_back({index, 0, tape.bits});
  const Group& holders = atoms.groups[tape.holders];
  const Group& needers = atoms.groups[tape.needers];
  for (size_t i = 0; i < needers.size(); ++i) {
    absl::Span<const int32_t> from = InHost(holders, network.host_of[needers[i]], network);
    if (from.empty()) from = holders;
    const int32_t holder = Holds(holders, needers[i]) ? needers[i] : from[i % from.size()];
    AddWhole(segment, holder, needers[i], Space::kSource, 0, Space::kTarget, moves);
  }
}

// Adds moves of `tape` to `gatherer`, unless it holds the tape, and from there to the other
// needers.
void GatherTape(int32_t index, int32_t gatherer, const Atoms& atoms, Moves& moves) {
  const Tape tape = atoms.tapes[index];
  const int32_t segment = static_cast<int32_t>(moves.segments.size());
  moves.segments.push_back({index, 0, tape.bits});
  const Group& holders = atoms.groups[tape.holders];
  const Group& needers = atoms.groups[tape.needers];
  const bool wanted = std::any_of(needers.begin(), needers.end(),
                                  [&](int32_t needer) { return !Holds(holders, needer); });
  Space space = Space::kSource;
  if (!Holds(holders, gatherer) && wanted) {
    space = Holds(needers, gatherer) ? Space::kTarget : Space::kStaging;
    AddWhole(segment, holders[index % holders.size()], gatherer, Space::kSource, 0, space, moves);
  }
  for (int32_t needer : needers) {
    if (Holds(holders, needer)) {
      AddWhole(segment, needer, needer, Space::kSource, 0, Space::kTarget, moves);
    } else if (needer != gatherer) {
      AddWhole(segment, gatherer, needer, space, space == Space::kSource ? 0 : 1, Space::kTarget,
               moves);
    }
  }
}

// Every device pulls what it needs and does not hold from one holder: one in its own host if there
// is one, else holders in turn. Like the next one it sets no slack_bits: no cut may move.
Moves MakeP2pMoves(const Atoms& atoms, const Network& network, Budget& budget) {
  Moves moves;
  for (size_t s = 0; s < atoms.tapes.size() && !budget.Spent(); ++s) {
    PullTape(static_cast<int32_t>(s), atoms, network, moves);
  }
  return moves;
}

// One device (the first that may carry) gathers everything and sends it to all devices that need
// it.
Moves MakeGatherMoves(const Atoms& atoms, const Network& network, Budget& budget) {
  int32_t gatherer = 0;
  while (gatherer < network.device_count() && network.nic_of[gatherer] < 0) ++gatherer;
  Moves moves;
  for (size_t s = 0; s < atoms.tapes.size() && !budget.Spent(); ++s) {
    GatherTape(static_cast<int32_t>(s), gatherer, atoms, moves);
  }
  return moves;
}

Moves MovesOf(Strategy strategy, const Atoms& atoms, const DemandClasses& demand,
              const RoutePlan& routes, const Network& network, Budget& budget, Dealing dealing) {
  switch (strategy) {
    case Strategy::kP2p:
      return MakeP2pMoves(atoms, network, budget);
    case Strategy::kGather:
      return MakeGatherMoves(atoms, network, budget);
    case Strategy::kOptimal:
      break;
  }
  return MakeOptimalMoves(atoms, demand, routes, network, budget, dealing);
}

}  // namespace

Moves MakeMoves(Strategy strategy, const Atoms& atoms, const DemandClasses& demand,
                const Routings& routings, const Network& network, Budget& budget, Dealing dealing) {
  Moves moves = MovesOf(strategy, atoms, demand, routings.routes, network, budget, dealing);
  moves.slack_bits = SlackBits(routings.hosts.t0, network);
  return moves;
}

}  // namespace remesh::planner
