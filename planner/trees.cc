// SPDX-License-Identifier: Apache-2.0
#include "planner/trees.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace remesh {

DegreeWheel::DegreeWheel(int64_t bits, absl::Span<const int64_t> sent)
    : bits_(bits), whole_(sent.size()), cuts_({0, bits}) {
  int64_t at = 0;
  for (size_t k = 0; k < sent.size(); ++k) {
    whole_[k] = sent[k] / bits;
    const int64_t rest = sent[k] % bits;
    if (rest == 0) continue;
    fractions_.push_back({k, at, at + rest});
    at += rest;
    cuts_.push_back(at % bits);
  }
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
}

std::vector<int64_t> DegreeWheel::DegreesAt(int64_t position) const {
  std::vector<int64_t> degrees = whole_;
  for (const Fraction& f : fractions_) {
    // The least point of position + bits * n that is >= lo lies inside.
    const int64_t ahead = ((position - f.lo) % bits_ + bits_) % bits_;
    if (f.lo + ahead < f.hi) ++degrees[f.index];
  }
  return degrees;
}

void AppendTree(absl::Span<const int32_t> holders, absl::Span<const int32_t> needers,
                absl::Span<const int64_t> degrees, std::vector<RouteEdge>& edges) {
  std::vector<size_t> order(needers.size());  // needers by falling degree
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return degrees[holders.size() + a] > degrees[holders.size() + b];
  });
  size_t next = 0;
  const auto serve = [&](int32_t host, int64_t degree) {
    for (; degree > 0 && next < order.size(); --degree) {
      edges.push_back({host, needers[order[next++]]});
    }
  };
  for (size_t k = 0; k < holders.size(); ++k) serve(holders[k], degrees[k]);
  for (size_t i = 0; i < next; ++i) serve(needers[order[i]], degrees[holders.size() + order[i]]);
  REMESH_CHECK(next == order.size());
}

Route MakeTrees(const DemandClass& demand, const std::vector<int64_t>& sent) {
  const DegreeWheel wheel(demand.bits, sent);
  Route route;
  for (size_t c = 0; c + 1 < wheel.cuts().size(); ++c) {
    route.push_back({wheel.cuts()[c], wheel.cuts()[c + 1], {}});
    AppendTree(demand.holders, demand.needers, wheel.DegreesAt(wheel.cuts()[c]),
               route.back().edges);
  }
  return route;
}

}  // namespace remesh
