// SPDX-License-Identifier: Apache-2.0
#include "planner/routing.h"

#include <algorithm>
#include <utility>

namespace remesh {
namespace {

// More holders than this do not share a root evenly: every share is a segment of its own.
constexpr size_t kEvenHoldersMax = 64;

bool HasSeveralNics(const Group& hosts, const Network& network) {
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](int32_t h) { return network.hosts[h].nics.size() > 1; });
}

// Items 2a and 2a + 1 are the root and the copies of class a.
TransportProblem MakeProblem(const DemandClasses& demand, const Network& network) {
  TransportProblem problem;
  for (const Network::HostNode& host : network.hosts) {
    problem.capacity.push_back(std::max<int64_t>(host.capacity(), 1));
  }
  for (const DemandClass& one : demand.classes) {
    const int32_t holders = static_cast<int32_t>(one.holders.size());
    // Each holder has other devices at hand, on other NICs: sharing the root keeps them all busy.
    const bool even = holders > 1 && one.holders.size() <= kEvenHoldersMax &&
                      HasSeveralNics(one.holders, network);
    problem.items.push_back({.demand = one.bits, .bins = one.holders, .priority = 0, .even = even});
    std::vector<int32_t> all = one.holders;
    all.insert(all.end(), one.needers.begin(), one.needers.end());
    problem.items.push_back({.demand = one.bits * (static_cast<int64_t>(one.needers.size()) - 1),
                             .bins = std::move(all),
                             .priority = 1,
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

Routing RouteClasses(const DemandClasses& demand, const Network& network, const Rational& t_in) {
  const TransportSolution solution = SolveTransport(MakeProblem(demand, network), t_in);
  Routing routing{.t0 = solution.t};
  for (size_t a = 0; a < demand.classes.size(); ++a) {
    std::vector<int64_t> sent = solution.flow[2 * a + 1];
    const std::vector<int64_t>& root = solution.flow[2 * a];
    for (size_t k = 0; k < root.size(); ++k) sent[k] += root[k];
    routing.sent.push_back(std::move(sent));
  }
  for (int32_t item : solution.tight_items) {
    (item % 2 == 0 ? routing.tight_roots : routing.tight_copies).push_back(item / 2);
  }
  routing.tight_hosts = solution.tight_bins;
  return routing;
}

}  // namespace remesh
