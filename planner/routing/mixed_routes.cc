// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/mixed_routes.h"

#include <algorithm>
#include <utility>

namespace remesh::planner {
namespace {

constexpr int64_t kParts = 64;

// Bits that leave and enter every host (2h, 2h + 1), then every domain.
std::vector<int64_t> LoadsOf(const Network& network, const std::vector<Route>& routes) {
  const int32_t hosts = network.host_count();
  std::vector<int64_t> loads(2 * (hosts + network.domains.size()), 0);
  std::vector<int32_t> seen(network.domains.size(),
                            -1);  // last edge that leaves the domain or stays inside
  int32_t edges = 0;
  const auto add = [&](const RouteEdge& edge, int64_t bits) {
    loads[2 * edge.from_host] += bits;
    loads[2 * edge.to_host + 1] += bits;
    const auto parent = [&](int32_t domain) { return network.domains[domain].parent; };
    for (int32_t d = network.hosts[edge.from_host].parent; d >= 0; d = parent(d)) seen[d] = edges;
    int32_t common = network.hosts[edge.to_host].parent;
    for (; common >= 0 && seen[common] != edges; common = parent(common)) {
      loads[2 * (hosts + common) + 1] += bits;
    }
    for (int32_t d = network.hosts[edge.from_host].parent; d != common; d = parent(d)) {
      loads[2 * (hosts + d)] += bits;
    }
    ++edges;
  };
  for (const Route& route : routes) {
    for (const RouteSegment& segment : route) {
      for (const RouteEdge& edge : segment.edges) add(edge, segment.end - segment.begin);
    }
  }
  return loads;
}

// The time of the busiest link when `share` of kParts parts go by `some`.
Rational TimeOf(const Network& network, const std::vector<int64_t>& some,
                const std::vector<int64_t>& others, int64_t share) {
  Rational t;
  for (size_t l = 0; l < some.size(); ++l) {
    const __int128 parts =
        static_cast<__int128>(share) * some[l] + static_cast<__int128>(kParts - share) * others[l];
    const auto bits = static_cast<int64_t>((parts + kParts - 1) / kParts);
    if (bits == 0) continue;
    const size_t unit = l / 2;
    const size_t hosts = network.hosts.size();
    const int64_t capacity = unit < hosts ? network.hosts[unit].capacity()
                             : l % 2 == 0 ? network.domains[unit - hosts].egress
                                          : network.domains[unit - hosts].ingress;
    t = std::max(t, Rational{bits, capacity});
  }
  return t;
}

// Appends `route` of `bits` bits, squeezed into [at, at + room).
void AppendSqueezed(const Route& route, int64_t bits, int64_t at, int64_t room, Route& to) {
  for (const RouteSegment& segment : route) {
    const int64_t begin = at + MulDiv(segment.begin, room, bits);
    const int64_t end = at + MulDiv(segment.end, room, bits);
    if (begin < end) to.push_back({begin, end, segment.edges});
  }
}

}  // namespace

RoutePlan Timed(const Network& network, std::vector<Route> routes) {
  const std::vector<int64_t> loads = LoadsOf(network, routes);
  return {.routes = std::move(routes), .t = TimeOf(network, loads, loads, kParts)};
}

RoutePlan LeastBusyMix(const Network& network, RoutePlan some, RoutePlan others) {
  RoutePlan& better = others.t < some.t ? others : some;
  const std::vector<int64_t> some_loads = LoadsOf(network, some.routes);
  const std::vector<int64_t> other_loads = LoadsOf(network, others.routes);
  Rational best = ThousandthLess(better.t);
  int64_t share = 0;
  for (int64_t i = 1; i < kParts; ++i) {
    const Rational t = TimeOf(network, some_loads, other_loads, i);
    if (!(t < best)) continue;
    best = t;
    share = i;
  }
  if (share == 0) return std::move(better);
  RoutePlan mix{.routes = {}, .t = best};
  for (size_t a = 0; a < some.routes.size(); ++a) {
    const int64_t bits = some.routes[a].back().end;
    const int64_t cut = MulDiv(bits, share, kParts);
    mix.routes.emplace_back();
    AppendSqueezed(some.routes[a], bits, 0, cut, mix.routes.back());
    AppendSqueezed(others.routes[a], bits, cut, bits - cut, mix.routes.back());
  }
  return mix;
}

}  // namespace remesh::planner
