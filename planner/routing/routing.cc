// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/routing.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/routing/direct_dealing.h"
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

// Its holders, then its needers.
Group HostsOf(const DemandClass& one) {
  Group hosts = one.holders;
  hosts.insert(hosts.end(), one.needers.begin(), one.needers.end());
  return hosts;
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
    problem.items.push_back({.demand = one.bits * (static_cast<int64_t>(one.needers.size()) - 1),
                             .bins = HostsOf(one),
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

// What whole copies leave to be routed: of few classes, though there may be millions in all.
struct Rest {
  TransportationProblem problem;
  std::vector<int32_t> class_of;  // by item
};

// A class's root is left where no holder sends a copy, and then as many copies fewer.
Rest RestOf(const std::vector<DemandClass>& classes, const Sent& sent,
            const std::vector<int64_t>& room, Budget& budget) {
  Rest rest;
  const auto add = [&](size_t a, int16_t priority, int64_t demand, Group hosts, int32_t preferred) {
    rest.problem.items.push_back(
        {.demand = demand, .bins = std::move(hosts), .priority = priority, .preferred = preferred});
    rest.class_of.push_back(static_cast<int32_t>(a));
  };
  for (size_t a = 0; a < classes.size() && !budget.Spent(); ++a) {
    const DemandClass& one = classes[a];
    const auto holders_end = sent[a].begin() + static_cast<ptrdiff_t>(one.holders.size());
    const int64_t by_holders = std::accumulate(sent[a].begin(), holders_end, int64_t{0});
    const int64_t by_needers = std::accumulate(holders_end, sent[a].end(), int64_t{0});
    const int64_t root = by_holders > 0 ? 0 : one.bits;
    const int64_t all = one.bits * static_cast<int64_t>(one.needers.size());
    const int64_t copies = all - by_holders - by_needers - root;
    if (root > 0) add(a, 0, root, one.holders, 0);
    if (copies > 0) add(a, 1, copies, HostsOf(one), static_cast<int32_t>(one.holders.size()));
  }
  // Bins have exactly the room that is left. A capacity must be > 0, so a full bin gets one bit too
  // much, which does not matter.
  for (const int64_t left : room) rest.problem.capacity.push_back(std::max<int64_t>(left, 1));
  return rest;
}

// What hosts can send in time t.
std::vector<int64_t> RoomsAt(const Rational& t, const std::vector<int64_t>& capacities) {
  std::vector<int64_t> rooms;
  for (const int64_t capacity : capacities) rooms.push_back(t.CeilTimes(capacity));
  return rooms;
}

// Routes whole copies where they fit into `room` and splits the rest; nullopt when the whole copies
// leave no room for the rest, give or take a bit a host where `exactly` is not set.
std::optional<Sent> RouteWholeFirst(const DemandClasses& demand, std::vector<int64_t> room,
                                    bool exactly, Budget& budget) {
  Sent sent = DealWholeCopies(demand, room, budget);
  if (budget.SpentNow()) return std::nullopt;
  const Rest rest = RestOf(demand.classes, sent, room, budget);
  if (budget.SpentNow()) return std::nullopt;
  const Sent flow = FillTransportation(rest.problem, {1, 1}, budget);
  if (budget.SpentNow()) return std::nullopt;
  for (size_t i = 0; i < flow.size(); ++i) {
    if (budget.Spent()) return std::nullopt;
    const TransportationProblem::Item& item = rest.problem.items[i];
    int64_t missing = item.demand;
    for (size_t k = 0; k < flow[i].size(); ++k) {
      sent[rest.class_of[i]][k] += flow[i][k];
      room[item.bins[k]] -= flow[i][k];
      missing -= flow[i][k];
    }
    if (missing > 0) return std::nullopt;
  }
  const bool fits = std::all_of(room.begin(), room.end(), [](int64_t left) { return left >= 0; });
  return fits || !exactly ? std::optional(std::move(sent)) : std::nullopt;
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
  const bool any_even = std::find(even.begin(), even.end(), true) != even.end();
  // What fits at once proves that no t above `t_in` is needed.
  std::optional<Sent> at_once =
      any_even ? DealDirectly(demand, even, RoomsAt(t_in, capacity), budget)
               : RouteWholeFirst(demand, RoomsAt(t_in, capacity), /*exactly=*/true, budget);
  if (budget.SpentNow()) return {};
  if (at_once.has_value()) return {.t0 = t_in, .sent = *std::move(at_once)};
  const TransportationSolution solution =
      SolveTransportation(MakeProblem(demand.classes, capacity, even, budget), t_in, budget);
  if (budget.SpentNow()) return {};
  Routing routing{.t0 = solution.t};
  std::optional<Sent> whole;
  if (!any_even) {
    whole = RouteWholeFirst(demand, RoomsAt(solution.t, capacity), /*exactly=*/false, budget);
  }
  routing.sent = whole.has_value() ? *std::move(whole) : AddUp(solution, budget);
  for (int32_t item : solution.tight_items) {
    (item % 2 == 0 ? routing.tight_roots : routing.tight_copies).push_back(item / 2);
  }
  routing.tight_hosts = solution.tight_bins;
  return routing;
}

}  // namespace remesh::planner
