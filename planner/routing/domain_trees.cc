// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/domain_trees.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"

namespace remesh::planner {
namespace {

// Sorts edges by their depth in the tree.
void SortByDepth(RouteEdges& edges) {
  absl::flat_hash_map<int32_t, size_t> edge_to;  // host -> edge that enters it
  for (size_t e = 0; e < edges.size(); ++e) edge_to[edges[e].to_host] = e;
  std::vector<int32_t> depth(edges.size(), 0);
  std::vector<size_t> path;
  for (size_t e = 0; e < edges.size(); ++e) {
    path.clear();
    for (size_t at = e; depth[at] == 0;) {
      path.push_back(at);
      const auto above = edge_to.find(edges[at].from_host);
      if (above == edge_to.end()) break;
      at = above->second;
      REMESH_CHECK(path.size() <= edges.size());
    }
    for (size_t p = path.size(); p-- > 0;) {
      const auto above = edge_to.find(edges[path[p]].from_host);
      depth[path[p]] = above == edge_to.end() ? 1 : depth[above->second] + 1;
    }
  }
  std::vector<size_t> order(edges.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return depth[a] < depth[b]; });
  RouteEdges sorted;
  for (size_t e : order) sorted.push_back(edges[e]);
  edges = std::move(sorted);
}

class ClassTrees {
 public:
  ClassTrees(int64_t bits, const std::vector<Crossing>& crossings, const std::vector<Served>& sent,
             int64_t fan_out, Budget& budget)
      : crossings_(crossings), budget_(budget), cuts_({0, bits}) {
    for (size_t w = 0; w < crossings.size(); ++w) {
      const auto relays_from = static_cast<size_t>(crossings[w].holding_hosts());
      wheels_.emplace_back(bits, sent[w], relays_from, fan_out);
      cuts_.insert(cuts_.end(), wheels_[w].cuts().begin(), wheels_[w].cuts().end());
    }
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  }

  Route Make() {
    Route route;
    for (size_t c = 0; c + 1 < cuts_.size() && !budget_.SpentNow(); ++c) {
      TurnTo(cuts_[c]);
      route.push_back({cuts_[c], cuts_[c + 1], {}});
      for (size_t w = 0; w < crossings_.size(); ++w) AppendEdges(w, route.back().edges);
      if (crossings_.size() > 1) SortByDepth(route.back().edges);
    }
    return route;
  }

 private:
  // Computes the degrees at a position of the class, and the gates that follow from them.
  void TurnTo(int64_t position) {
    degrees_.clear();
    child_degrees_.clear();
    gate_child_.assign(crossings_.size(), -1);
    for (size_t w = 0; w < crossings_.size(); ++w) {
      degrees_.push_back(wheels_[w].DegreesAt(position));
      child_degrees_.emplace_back();
      for (const Crossing::Child& child : crossings_[w].children) {
        child_degrees_[w].push_back(std::accumulate(degrees_[w].begin() + child.begin,
                                                    degrees_[w].begin() + child.end, int64_t{0}));
      }
      if (crossings_[w].holding > 0) continue;
      const auto most = std::max_element(child_degrees_[w].begin(), child_degrees_[w].end());
      gate_child_[w] = static_cast<int32_t>(most - child_degrees_[w].begin());
    }
  }

  int32_t GateOf(const Crossing* crossing, const Crossing::Child* child) const {
    while (child->crossing >= 0) {
      const int32_t gate = gate_child_[child->crossing];
      crossing = &crossings_[child->crossing];
      child = &crossing->children[gate];
    }
    return crossing->hosts[child->begin];
  }

  void AppendEdges(size_t w, RouteEdges& edges) {
    const Crossing& crossing = crossings_[w];
    const auto children = static_cast<int32_t>(crossing.children.size());
    std::vector<int32_t> roots(std::max(crossing.holding, 1));
    std::iota(roots.begin(), roots.end(), crossing.holding > 0 ? 0 : gate_child_[w]);
    std::vector<int32_t> others;
    for (int32_t c = crossing.holding; c < children; ++c) {
      if (c != gate_child_[w]) others.push_back(c);
    }
    std::vector<int64_t> degrees;
    for (const auto* list : {&roots, &others}) {
      for (int32_t c : *list) degrees.push_back(child_degrees_[w][c]);
    }
    RouteEdges between;  // between children
    AppendTree(roots, others, degrees, between);
    std::vector<int32_t> sender;
    for (const Crossing::Child& child : crossing.children) sender.push_back(child.begin);
    for (const RouteEdge& edge : between) {
      int32_t& from = sender[edge.from_host];
      while (degrees_[w][from] == 0) ++from;
      --degrees_[w][from];
      edges.push_back({crossing.hosts[from], GateOf(&crossing, &crossing.children[edge.to_host])});
    }
  }

  const std::vector<Crossing>& crossings_;
  Budget& budget_;
  std::vector<DegreeWheel> wheels_;  // by crossing
  std::vector<int64_t> cuts_;
  // At the current position, by crossing:
  std::vector<std::vector<int64_t>> degrees_;
  std::vector<std::vector<int64_t>> child_degrees_;
  std::vector<int32_t> gate_child_;  // -1: a child holds the class
};

}  // namespace

std::vector<Route> MakeDomainTrees(const DemandClasses& demand, const DomainRouting& routing,
                                   Budget& budget) {
  std::vector<Route> routes;
  for (size_t a = 0; a < demand.classes.size() && !budget.Spent(); ++a) {
    const auto trees = [&](int64_t fan_out) {
      return ClassTrees(demand.classes[a].bits, routing.crossings[a], routing.sent[a], fan_out,
                        budget)
          .Make();
    };
    Route route = trees(1);
    if (demand.classes[a].needers.size() > kDepthWanted && DepthOf(route) > kDepthWanted) {
      Route bushy = trees(kRelayFanOut);
      if (DepthOf(bushy) < DepthOf(route)) route = std::move(bushy);
    }
    routes.push_back(std::move(route));
  }
  return routes;
}

}  // namespace remesh::planner
