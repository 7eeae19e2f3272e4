// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/trees.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"

namespace remesh::planner {

namespace {

// Bits that relays must serve one copy at a time, so that the rest can be served `fan_out` at a
// time; -1 where relays do not serve that many bits.
int64_t SinglyServed(int64_t bits, absl::Span<const int64_t> sent, size_t relays_from,
                     int64_t fan_out) {
  int64_t fractions = 0;
  int64_t relayed = 0;
  for (size_t k = 0; k < sent.size(); ++k) {
    if (k < relays_from) {
      fractions += sent[k] % bits;
    } else {
      relayed += sent[k];
    }
  }
  int64_t single = (bits - fractions % bits) % bits;  // up to a whole turn of the wheel
  if (single > relayed) return -1;
  single += (relayed - single) / bits % fan_out * bits;
  return single <= relayed ? single : -1;
}

}  // namespace

DegreeWheel::DegreeWheel(int64_t bits, absl::Span<const int64_t> sent, size_t relays_from,
                         int64_t fan_out)
    : bits_(bits), whole_(sent.size()), cuts_({0, bits}) {
  int64_t single = fan_out > 1 ? SinglyServed(bits, sent, relays_from, fan_out) : -1;
  if (single < 0) relays_from = sent.size();
  int64_t at = 0;
  for (size_t k = 0; k < relays_from; ++k) {
    whole_[k] = sent[k] / bits;
    AddArc(k, at, sent[k] % bits, 1);
    at += sent[k] % bits;
  }
  int64_t served = 0;  // by relays, fan_out at a time
  for (size_t k = relays_from; k < sent.size(); ++k) {
    const int64_t one_by_one = std::min(single, sent[k]);
    single -= one_by_one;
    AddArc(k, at, one_by_one, 1);
    at += one_by_one;
    const int64_t begin = served / fan_out;
    served += sent[k] - one_by_one;
    AddArc(k, at + begin, served / fan_out - begin, fan_out);
  }
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
}

void DegreeWheel::AddArc(size_t index, int64_t lo, int64_t length, int64_t copies) {
  if (length == 0) return;
  arcs_.push_back({index, lo, lo + length, copies});
  cuts_.push_back(lo % bits_);
  cuts_.push_back((lo + length) % bits_);
}

std::vector<int64_t> DegreeWheel::DegreesAt(int64_t position) const {
  std::vector<int64_t> degrees = whole_;
  for (const Arc& arc : arcs_) {
    // Counts the positions position + bits * n inside the arc, from the least that is >= lo.
    const int64_t ahead = ((position - arc.lo) % bits_ + bits_) % bits_;
    const int64_t beyond = arc.hi - arc.lo - ahead;
    if (beyond > 0) degrees[arc.index] += (beyond + bits_ - 1) / bits_ * arc.copies;
  }
  return degrees;
}

void AppendTree(absl::Span<const int32_t> holders, absl::Span<const int32_t> needers,
                absl::Span<const int64_t> degrees, RouteEdges& edges) {
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

namespace {

Route TreesOf(const DemandClass& demand, const DegreeWheel& wheel, Budget& budget) {
  Route route;
  for (size_t c = 0; c + 1 < wheel.cuts().size() && !budget.Spent(); ++c) {
    route.push_back({wheel.cuts()[c], wheel.cuts()[c + 1], {}});
    AppendTree(demand.holders, demand.needers, wheel.DegreesAt(wheel.cuts()[c]),
               route.back().edges);
  }
  return route;
}

}  // namespace

int DepthOf(const Route& route) {
  int deepest = 0;
  for (const RouteSegment& segment : route) {
    absl::flat_hash_map<int32_t, int> depth_of;  // holders: 0
    for (const RouteEdge& edge : segment.edges) {
      const auto from = depth_of.find(edge.from_host);
      const int depth = (from == depth_of.end() ? 0 : from->second) + 1;
      depth_of[edge.to_host] = depth;
      deepest = std::max(deepest, depth);
    }
  }
  return deepest;
}

Route MakeTrees(const DemandClass& demand, absl::Span<const int64_t> sent, Budget& budget) {
  Route route = TreesOf(demand, DegreeWheel(demand.bits, sent), budget);
  if (demand.needers.size() <= kDepthWanted || DepthOf(route) <= kDepthWanted) return route;
  Route bushy =
      TreesOf(demand, DegreeWheel(demand.bits, sent, demand.holders.size(), kRelayFanOut), budget);
  return DepthOf(bushy) < DepthOf(route) ? bushy : route;
}

}  // namespace remesh::planner
