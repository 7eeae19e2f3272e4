// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/forest.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "planner/values/resize.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// Adds edges to a forest one by one; cancels an edge that would close a cycle against that cycle
// first. Node i is item i, node items + j is bin j. `top_` says which tree a node is in
// (union-find). Splitting a tree does not relabel its nodes: a stale "same tree" only costs a
// search.
class ForestMaker {
 public:
  ForestMaker(const std::vector<int32_t>& edge_bin, int32_t items, int32_t bins,
              std::vector<int64_t>& flow, Budget& budget)
      : edge_bin_(edge_bin), items_(items), flow_(flow), budget_(budget) {
    const size_t nodes = static_cast<size_t>(items) + bins;
    Resize(edges_of_, nodes, budget);
    Resize(seen_, nodes, budget);
    Resize(via_, nodes, budget);
    Resize(edge_item_, edge_bin.size(), budget);
    top_ = InOrder(nodes);
  }

  void Add(int64_t edge, int32_t item) {
    edge_item_[edge] = item;
    const int32_t bin = items_ + edge_bin_[edge];
    while (flow_[edge] > 0 && Top(item) == Top(bin) && FindPath(bin, item)) Cancel(edge, bin, item);
    if (flow_[edge] == 0) return;
    edges_of_[item].push_back(edge);
    edges_of_[bin].push_back(edge);
    top_[Top(item)] = Top(bin);
  }

 private:
  int32_t Top(int32_t node) {
    while (top_[node] != node) node = top_[node] = top_[top_[node]];
    return node;
  }

  int32_t Other(int64_t edge, int32_t node) const {
    return node < items_ ? items_ + edge_bin_[edge] : edge_item_[edge];
  }

  // False (nothing found) once the budget is spent.
  bool FindPath(int32_t from, int32_t to) {
    ++mark_;
    queue_.assign(1, from);
    seen_[from] = mark_;
    for (size_t q = 0; q < queue_.size(); ++q) {
      if (budget_.Spent()) return false;
      const int32_t node = queue_[q];
      if (node == to) return true;
      for (int64_t edge : edges_of_[node]) {
        const int32_t next = Other(edge, node);
        if (seen_[next] == mark_) continue;
        seen_[next] = mark_;
        via_[next] = edge;
        queue_.push_back(next);
      }
    }
    return false;
  }

  // Cancels the cycle of `edge` and the path that FindPath() found last, from the edge's bin to its
  // item. Its edges alternately give and take flow.
  void Cancel(int64_t edge, int32_t bin, int32_t item) {
    std::vector<int64_t> cycle = {edge};
    for (int32_t node = item; node != bin;) {
      cycle.push_back(via_[node]);
      node = Other(via_[node], node);
    }
    // Edges at even places (edge, ...) lose or gain together. Empties the parity that has the
    // smaller edge.
    int64_t least[2] = {flow_[edge], flow_[cycle[1]]};
    for (size_t i = 0; i < cycle.size(); ++i) {
      least[i % 2] = std::min(least[i % 2], flow_[cycle[i]]);
    }
    const size_t losing = least[0] <= least[1] ? 0 : 1;
    for (size_t i = 0; i < cycle.size(); ++i) {
      flow_[cycle[i]] += i % 2 == losing ? -least[losing] : least[losing];
    }
    for (size_t i = 1; i < cycle.size(); ++i) {
      if (flow_[cycle[i]] == 0) Remove(cycle[i]);
    }
  }

  void Remove(int64_t edge) {
    for (int32_t node : {edge_item_[edge], items_ + edge_bin_[edge]}) {
      auto& edges = edges_of_[node];
      edges.erase(std::find(edges.begin(), edges.end(), edge));
    }
  }

  const std::vector<int32_t>& edge_bin_;
  const int32_t items_;
  std::vector<int64_t>& flow_;
  Budget& budget_;
  std::vector<absl::InlinedVector<int64_t, 2>> edges_of_;
  std::vector<int32_t> top_;
  std::vector<int32_t> edge_item_;
  std::vector<int64_t> seen_;
  std::vector<int64_t> via_;  // edge by which the search reached a node, where seen_
  std::vector<int32_t> queue_;
  int64_t mark_ = 0;
};

}  // namespace

void CancelCycles(const std::vector<int32_t>& edge_bin, const std::vector<int64_t>& first_edge,
                  int32_t bin_count, const std::vector<bool>& fixed, std::vector<int64_t>& flow,
                  Budget& budget) {
  const int32_t items = static_cast<int32_t>(first_edge.size()) - 1;
  ForestMaker maker(edge_bin, items, bin_count, flow, budget);
  for (int32_t i = 0; i < items; ++i) {
    if (fixed[i]) continue;
    for (int64_t e = first_edge[i]; e < first_edge[i + 1]; ++e) {
      if (budget.Spent()) return;
      if (flow[e] > 0) maker.Add(e, i);
    }
  }
}

}  // namespace remesh::planner
