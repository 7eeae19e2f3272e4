// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/lower_bound.h"

#include <algorithm>
#include <vector>

#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

void AddTo(int32_t unit, const Units& units, Certificate& certificate) {
  if (units.IsHost(unit)) {
    certificate.hosts.push_back(unit);
  } else {
    certificate.domains.push_back(unit - units.network().host_count());
  }
}

// Bits that each unit needs and no host in it holds.
std::vector<int64_t> IngressBits(const DemandClasses& demand, const Units& units) {
  const Network& network = units.network();
  std::vector<int64_t> bits(units.count(), 0);
  std::vector<int64_t> seen(network.domains.size(), -1);  // last class that marked the domain
  for (size_t a = 0; a < demand.classes.size(); ++a) {
    const DemandClass& one = demand.classes[a];
    const auto mark_above = [&](int32_t host, int64_t weight) {
      for (int32_t d = network.hosts[host].parent; d >= 0; d = network.domains[d].parent) {
        if (seen[d] == static_cast<int64_t>(a)) return;
        seen[d] = static_cast<int64_t>(a);
        bits[network.host_count() + d] += weight;
      }
    };
    for (int32_t host : one.holders) mark_above(host, 0);
    for (int32_t host : one.needers) {
      bits[host] += one.bits;
      mark_above(host, one.bits);
    }
  }
  return bits;
}

Bound IngressOf(const DemandClasses& demand, const Units& units, int32_t unit_end) {
  const std::vector<int64_t> bits = IngressBits(demand, units);
  Bound bound;
  int32_t binding = -1;
  for (int32_t u = 0; u < unit_end; ++u) {
    const Rational t{bits[u], units.Capacity(u, false)};
    if (bits[u] == 0 || !(bound.t < t)) continue;
    bound.t = t;
    binding = u;
  }
  if (binding < 0) return bound;
  bound.certificate = {.kind = Certificate::Kind::kIngress,
                       .hosts = {},
                       .domains = {},
                       .bits = bound.t.num,
                       .capacity = bound.t.den};
  AddTo(binding, units, bound.certificate);
  return bound;
}

Group UnitsOf(const Group& hosts, int level, const Units& units) {
  Group result;
  for (int32_t host : hosts) result.push_back(units.UnitAt(host, level));
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Deals the bits of a class to a few of `units`, those that have most room left. False where these do
// not have room for all.
bool Deal(int64_t bits, const Group& units, std::vector<int64_t>& room) {
  constexpr int kUnitsMost = 8;
  for (int tries = 0; tries < kUnitsMost && bits > 0; ++tries) {
    int32_t most = units.front();
    for (const int32_t unit : units) most = room[unit] > room[most] ? unit : most;
    const int64_t taken = std::min(bits, room[most]);
    room[most] -= taken;
    bits -= taken;
  }
  return bits == 0;
}

// T_out over the domains of one level (-1: over hosts), if it is more than `least`.
Bound EgressBound(const DemandClasses& demand, const Units& units, int level, const Rational& least,
                  Budget& budget) {
  TransportationProblem problem;
  for (int32_t u = 0; u < units.count(); ++u) problem.capacity.push_back(units.Capacity(u, true));
  // Calls visit(bits, holders) for what must leave its holders, while it returns true.
  const auto for_each = [&](const auto& visit) {
    for (const DemandClass& one : demand.classes) {
      if (budget.Spent()) return false;
      Group holders = UnitsOf(one.holders, level, units);
      const Group needers = UnitsOf(one.needers, level, units);
      if (std::includes(holders.begin(), holders.end(), needers.begin(), needers.end())) continue;
      if (!visit(one.bits, std::move(holders))) return false;
    }
    return true;
  };
  // Often the first try shows that `least` is enough. There may be millions of classes.
  std::vector<int64_t> room;
  for (const int64_t capacity : problem.capacity) room.push_back(least.CeilTimes(capacity));
  if (for_each([&](int64_t bits, const Group& holders) { return Deal(bits, holders, room); })) {
    return {.t = least, .certificate = {}};
  }
  Reserve(problem.items, demand.classes.size());
  for_each([&](int64_t bits, Group holders) {
    problem.items.push_back({.demand = bits, .bins = std::move(holders)});
    return true;
  });
  if (budget.SpentNow()) return {};
  const TransportationSolution solution = BoundTransportation(problem, least, budget);
  Bound bound{.t = solution.t, .certificate = {}};
  if (!(least < solution.t)) return bound;
  bound.certificate = {.kind = Certificate::Kind::kEgress,
                       .hosts = {},
                       .domains = {},
                       .bits = solution.t.num,
                       .capacity = solution.t.den};
  for (int32_t unit : solution.tight_bins) AddTo(unit, units, bound.certificate);
  return bound;
}

}  // namespace

Bound IngressBound(const DemandClasses& demand, const Units& units) {
  return IngressOf(demand, units, units.count());
}

Bound LowerBound(const DemandClasses& demand, const Units& units, Budget& budget) {
  Bound best = IngressBound(demand, units);
  for (int level = -1; level < units.levels(); ++level) {
    Bound egress = EgressBound(demand, units, level, best.t, budget);
    if (best.t < egress.t) best = std::move(egress);
  }
  return best;
}

Bound EgressOf(const std::vector<int32_t>& hosts, const std::vector<int32_t>& domains,
               const DemandClasses& demand, const Units& units) {
  const Network& network = units.network();
  std::vector<bool> is_member(units.count(), false);
  Bound bound{.t = {},
              .certificate = {.kind = Certificate::Kind::kEgress,
                              .hosts = hosts,
                              .domains = domains,
                              .bits = 0,
                              .capacity = 0}};
  const auto add = [&](int32_t unit) {
    is_member[unit] = true;
    bound.certificate.capacity += units.Capacity(unit, true);
  };
  for (int32_t host : hosts) add(host);
  for (int32_t domain : domains) add(network.host_count() + domain);
  std::vector<int32_t> member_of(network.hosts.size(), -1);
  for (int32_t h = 0; h < network.host_count(); ++h) {
    if (is_member[h]) member_of[h] = h;
    for (int32_t d = network.hosts[h].parent; d >= 0; d = network.domains[d].parent) {
      if (is_member[network.host_count() + d]) member_of[h] = network.host_count() + d;
    }
  }
  for (const DemandClass& one : demand.classes) {
    std::vector<int32_t> holding;
    for (int32_t host : one.holders) holding.push_back(member_of[host]);
    std::sort(holding.begin(), holding.end());
    if (holding.front() < 0) continue;
    const bool leaves = std::any_of(one.needers.begin(), one.needers.end(), [&](int32_t host) {
      return !std::binary_search(holding.begin(), holding.end(), member_of[host]);
    });
    if (leaves) bound.certificate.bits += one.bits;
  }
  bound.t = {bound.certificate.bits, std::max<int64_t>(bound.certificate.capacity, 1)};
  return bound;
}

Bound RoutingBound(const DemandClasses& demand, const Units& units, const Routing& routing) {
  if (routing.tight_hosts.empty()) {
    return IngressOf(demand, units, units.network().host_count());
  }
  const Certificate::Kind kind =
      routing.tight_copies.empty() ? Certificate::Kind::kEgress : Certificate::Kind::kRelay;
  return {.t = routing.t0,
          .certificate = {.kind = kind,
                          .hosts = routing.tight_hosts,
                          .domains = {},
                          .bits = routing.t0.num,
                          .capacity = routing.t0.den}};
}

}  // namespace remesh::planner
