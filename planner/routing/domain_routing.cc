// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/domain_routing.h"

#include <algorithm>
#include <utility>

#include "planner/routing/transportation.h"

namespace remesh::planner {
namespace {

// A problem with all NICs and uplinks but no demand yet.
TransportationProblem EmptyProblem(const Units& units) {
  const Network& network = units.network();
  TransportationProblem problem;
  for (int32_t h = 0; h < network.host_count(); ++h) {
    problem.capacity.push_back(units.Capacity(h, true));
    problem.group_of.push_back(units.DomainAt(h, units.levels() - 1));
  }
  for (const Network::DomainNode& domain : network.domains) {
    problem.groups.push_back({.capacity = domain.egress, .parent = domain.parent});
  }
  return problem;
}

// Adds two items, or one where no host in the domain holds the class.
void AddCrossing(int64_t bits, const Crossing& crossing, TransportationProblem& problem) {
  const int32_t holding = crossing.holding_hosts();
  int64_t copies = crossing.copies;
  if (holding > 0) {
    problem.items.push_back(
        {.demand = bits, .bins = {crossing.hosts.begin(), crossing.hosts.begin() + holding}});
    --copies;
  }
  problem.items.push_back(
      {.demand = bits * copies, .bins = crossing.hosts, .priority = 1, .preferred = holding});
  if (crossing.domain >= 0) problem.groups[crossing.domain].inside += bits * crossing.copies;
}

// Bits sent inside a domain are also sent inside the domains that contain it.
void SumInside(std::vector<TransportationProblem::Group>& groups) {
  for (size_t g = groups.size(); g-- > 0;) {
    if (groups[g].parent >= 0) groups[groups[g].parent].inside += groups[g].inside;
  }
}

Bound BoundOf(const TransportationSolution& solution, Bound ingress) {
  if (!(ingress.t < solution.t)) return ingress;
  return {.t = solution.t,
          .certificate = {.kind = Certificate::Kind::kRelay,
                          .hosts = solution.tight_bins,
                          .domains = solution.tight_groups,
                          .bits = solution.t.num,
                          .capacity = solution.t.den}};
}

}  // namespace

DomainRouting RouteThroughDomains(const DemandClasses& demand, const Units& units, Budget& budget) {
  DomainRouting routing;
  TransportationProblem problem = EmptyProblem(units);
  for (const DemandClass& one : demand.classes) {
    if (budget.Spent()) return routing;
    routing.crossings.push_back(CrossingsOf(one, units));
    for (const Crossing& crossing : routing.crossings.back()) {
      AddCrossing(one.bits, crossing, problem);
    }
  }
  SumInside(problem.groups);
  Bound ingress = IngressBound(demand, units);
  TransportationSolution solution = SolveTransportation(problem, ingress.t, budget);
  if (budget.SpentNow()) return routing;
  size_t item = 0;
  for (const std::vector<Crossing>& crossings : routing.crossings) {
    routing.sent.emplace_back();
    for (const Crossing& crossing : crossings) {
      const size_t first = item;
      item += crossing.holding > 0 ? 2 : 1;
      Served& sent = solution.flow[item - 1];
      for (int32_t k = 0; k < crossing.holding_hosts(); ++k) sent[k] += solution.flow[first][k];
      routing.sent.back().push_back(std::move(sent));
    }
  }
  routing.bound = BoundOf(solution, std::move(ingress));
  return routing;
}

}  // namespace remesh::planner
