// SPDX-License-Identifier: Apache-2.0
#include "planner/trees.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace remesh {
namespace {

// Where host `index` serves one copy more: [lo, hi) modulo b.
struct Fraction {
  size_t index;
  int64_t lo;
  int64_t hi;
};

// The tree over needers with these degrees (of holders, then of needers).
std::vector<RouteEdge> TreeOf(const DemandClass& demand, const std::vector<int64_t>& degrees) {
  const size_t holders = demand.holders.size();
  std::vector<size_t> order(demand.needers.size());  // needers by falling degree
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return degrees[holders + a] > degrees[holders + b]; });
  std::vector<RouteEdge> edges;
  size_t next = 0;
  const auto serve = [&](int32_t host, int64_t degree) {
    for (; degree > 0 && next < order.size(); --degree) {
      edges.push_back({host, demand.needers[order[next++]]});
    }
  };
  for (size_t k = 0; k < holders; ++k) serve(demand.holders[k], degrees[k]);
  for (size_t i = 0; i < next; ++i) {
    serve(demand.needers[order[i]], degrees[holders + order[i]]);
  }
  REMESH_CHECK(next == order.size());
  return edges;
}

}  // namespace

Route MakeTrees(const DemandClass& demand, const std::vector<int64_t>& sent) {
  const int64_t b = demand.bits;
  std::vector<int64_t> degrees(sent.size());
  std::vector<Fraction> fractions;
  std::vector<int64_t> cuts = {0, b};
  int64_t at = 0;
  for (size_t k = 0; k < sent.size(); ++k) {
    degrees[k] = sent[k] / b;
    const int64_t rest = sent[k] % b;
    if (rest == 0) continue;
    fractions.push_back({k, at, at + rest});
    at += rest;
    cuts.push_back(at % b);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  Route route;
  for (size_t c = 0; c + 1 < cuts.size(); ++c) {
    std::vector<int64_t> here = degrees;
    for (const Fraction& f : fractions) {
      // The least point of cuts[c] + b * n that is >= lo lies inside.
      const int64_t ahead = ((cuts[c] - f.lo) % b + b) % b;
      if (f.lo + ahead < f.hi) ++here[f.index];
    }
    route.push_back({cuts[c], cuts[c + 1], TreeOf(demand, here)});
  }
  return route;
}

}  // namespace remesh
