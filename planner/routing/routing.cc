// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/routing.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/routing/whole_copies.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

// With more holders than this a root is not shared evenly, because every share is a segment of its
// own.
constexpr size_t kEvenHoldersMax = 64;

// Whether the first holder has the class on fewer NICs than the host has.
bool LiesOnFewNics(const Atoms& atoms, const DemandClass& one, const Network& network) {
  const Network::HostNode& host = network.hosts[one.holders.front()];
  std::vector<bool> seen(host.nics.size(), false);
  size_t count = 0;
  for (int32_t tape : one.tapes) {
    const Group& group = atoms.groups[atoms.tapes[tape].holders];
    auto device = std::lower_bound(group.begin(), group.end(), host.first_device);
    for (; device != group.end() && *device < host.first_device + host.device_count; ++device) {
      const size_t nic = static_cast<size_t>(network.nic_of[*device] - host.nics.front());
      count += !seen[nic];
      seen[nic] = true;
    }
    if (count == host.nics.size()) return false;
  }
  return true;
}

bool MustShareEvenly(const Atoms& atoms, const DemandClass& one, const Network& network) {
  return one.holders.size() > 1 && one.holders.size() <= kEvenHoldersMax &&
         LiesOnFewNics(atoms, one, network);
}

// Items 2a and 2a + 1 are the root and the copies of class a.
TransportationProblem MakeProblem(const std::vector<DemandClass>& classes,
                                  std::vector<int64_t> capacity, const std::vector<bool>& even,
                                  Budget& budget) {
  TransportationProblem problem{.items = {}, .capacity = std::move(capacity)};
  Reserve(problem.items, 2 * classes.size());
  for (size_t a = 0; a < classes.size() && !budget.Spent(); ++a) {
    const DemandClass& one = classes[a];
    const int32_t holders = static_cast<int32_t>(one.holders.size());
    problem.items.push_back(
        {.demand = one.bits, .bins = one.holders, .priority = 0, .even = even[a]});
    Group all = one.holders;
    all.insert(all.end(), one.needers.begin(), one.needers.end());
    problem.items.push_back({.demand = one.bits * (static_cast<int64_t>(one.needers.size()) - 1),
                             .bins = std::move(all),
                             .priority = 1,
                             .even = even[a],
                             .preferred = holders});
  }
  return problem;
}

}  // namespace

Rational HostIngressBound(const DemandClasses& demand, const Network& network) {
  std::vector<int64_t> bits(network.hosts.size(), 0);
  for (const DemandClass& one : demand.classes) {
    for (int32_t host : one.needers) bits[host] += one.bits;
  }
  Rational bound;
  for (size_t h = 0; h < bits.size(); ++h) {
    if (bits[h] == 0) continue;
    bound = std::max(bound, Rational{bits[h], network.hosts[h].capacity()});
  }
  return bound;
}

namespace {

using Sent = std::vector<Served>;

// The sum of root and copies of each class.
Sent AddUp(const TransportationSolution& solution, Budget& budget) {
  Sent sent;
  Reserve(sent, solution.flow.size() / 2);
  for (size_t i = 0; i + 1 < solution.flow.size() && !budget.Spent(); i += 2) {
    sent.push_back(solution.flow[i + 1]);
    for (size_t k = 0; k < solution.flow[i].size(); ++k) sent.back()[k] += solution.flow[i][k];
  }
  return sent;
}

// Routes whole copies where they fit under t and splits the rest; nullopt when the whole copies
// leave no room for the rest.
std::optional<Sent> RouteWholeFirst(const DemandClasses& demand, TransportationProblem problem,
                                    const Rational& t, Budget& budget) {
  std::vector<int64_t> room;
  for (int64_t capacity : problem.capacity) room.push_back(t.CeilTimes(capacity));
  Sent sent = DealWholeCopies(demand, room, budget);
  for (size_t a = 0; a < demand.classes.size(); ++a) {
    if (budget.Spent()) return std::nullopt;
    const DemandClass& one = demand.classes[a];
    const auto sum = [&](size_t begin, size_t end) {
      return std::accumulate(sent[a].begin() + begin, sent[a].begin() + end, int64_t{0});
    };
    const int64_t by_holders = sum(0, one.holders.size());
    TransportationProblem::Item& root = problem.items[2 * a];
    TransportationProblem::Item& copies = problem.items[2 * a + 1];
    copies.demand += root.demand - by_holders - sum(one.holders.size(), sent[a].size());
    root.demand = by_holders > 0 ? 0 : one.bits;
    copies.demand -= root.demand;
  }
  // Bins have exactly the room that is left. A capacity must be > 0, so a full bin gets one bit too
  // much, which does not matter.
  problem.capacity = room;
  for (int64_t& capacity : problem.capacity) capacity = std::max<int64_t>(capacity, 1);
  const Sent rest = FillTransportation(problem, {1, 1}, budget);
  if (budget.SpentNow()) return std::nullopt;
  for (size_t a = 0; a < sent.size(); ++a) {
    if (budget.Spent()) return std::nullopt;
    for (size_t side : {2 * a, 2 * a + 1}) {
      int64_t missing = problem.items[side].demand;
      for (size_t k = 0; k < rest[side].size(); ++k) {
        sent[a][k] += rest[side][k];
        missing -= rest[side][k];
      }
      if (missing > 0) return std::nullopt;
    }
  }
  return sent;
}

}  // namespace

Routing RouteClasses(const Atoms& atoms, const DemandClasses& demand, const Network& network,
                     const Rational& t_in, Budget& budget) {
  std::vector<bool> even;
  for (const DemandClass& one : demand.classes) {
    if (budget.Spent()) return {};
    even.push_back(MustShareEvenly(atoms, one, network));
  }
  std::vector<int64_t> capacity;
  for (const Network::HostNode& host : network.hosts) {
    capacity.push_back(std::max<int64_t>(host.capacity(), 1));
  }
  TransportationProblem problem = MakeProblem(demand.classes, std::move(capacity), even, budget);
  const TransportationSolution solution = SolveTransportation(problem, t_in, budget);
  if (budget.SpentNow()) return {};
  Routing routing{.t0 = solution.t};
  std::optional<Sent> whole;
  if (std::find(even.begin(), even.end(), true) == even.end()) {
    whole = RouteWholeFirst(demand, std::move(problem), solution.t, budget);
  }
  routing.sent = whole.has_value() ? *std::move(whole) : AddUp(solution, budget);
  for (int32_t item : solution.tight_items) {
    (item % 2 == 0 ? routing.tight_roots : routing.tight_copies).push_back(item / 2);
  }
  routing.tight_hosts = solution.tight_bins;
  return routing;
}

}  // namespace remesh::planner
