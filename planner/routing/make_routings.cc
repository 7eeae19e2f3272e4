// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/make_routings.h"

#include <utility>

#include "planner/network/units.h"
#include "planner/routing/domain_trees.h"
#include "planner/routing/trees.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

RoutePlan MakeRoutes(const DemandClasses& demand, const Routings& routings, const Network& network,
                     Budget& budget) {
  RoutePlan plan{.routes = {}, .t = routings.hosts.t0};
  Reserve(plan.routes, demand.classes.size());
  for (size_t a = 0; a < demand.classes.size() && !budget.Spent(); ++a) {
    plan.routes.push_back(MakeTrees(demand.classes[a], routings.hosts.sent[a], budget));
  }
  if (network.domains.empty() || budget.SpentNow()) return plan;
  plan = Timed(network, std::move(plan.routes));
  if (!(routings.hosts.t0 < ThousandthLess(plan.t))) return plan;
  std::vector<Route> through_domains = MakeDomainTrees(demand, routings.domains, budget);
  if (budget.SpentNow()) return plan;
  return LeastBusyMix(network, std::move(plan), Timed(network, std::move(through_domains)));
}

}  // namespace

Routings BoundRoutings(const Atoms& atoms, const DemandClasses& demand, const Network& network,
                       Budget& budget) {
  const Units units(network);
  Routings routings;
  routings.lower = LowerBound(demand, units, budget);
  routings.hosts = RouteClasses(atoms, demand, network, HostIngressBound(demand, network), budget);
  if (!network.domains.empty()) {
    routings.domains = RouteThroughDomains(demand, units, budget);
    if (budget.SpentNow()) return routings;
    // The members of a proof across levels also bound any plan, by the bits that only they hold.
    const Certificate& proof = routings.domains.bound.certificate;
    Bound across = EgressOf(proof.hosts, proof.domains, demand, units);
    if (routings.lower.t < across.t) routings.lower = std::move(across);
  }
  routings.reachable = RoutingBound(demand, units, routings.hosts);
  return routings;
}

Routings MakeRoutings(Strategy strategy, const Atoms& atoms, const DemandClasses& demand,
                      const Network& network, Budget& budget) {
  Routings routings = BoundRoutings(atoms, demand, network, budget);
  if (strategy != Strategy::kOptimal || budget.SpentNow()) return routings;
  routings.routes = MakeRoutes(demand, routings, network, budget);
  routings.hosts.sent = std::vector<Served>();  // the routes say it
  return routings;
}

}  // namespace remesh::planner
