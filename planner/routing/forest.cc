// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/forest.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "planner/values/resize.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// An edge of an item that has several with flow. Other items are leaves, which no cycle passes;
// there may be millions of them.
struct Edge {
  int32_t item = 0;  // nodes: bins come first, then items
  int32_t bin = 0;
  int64_t* flow = nullptr;
};

// Adds edges to a forest one by one; cancels an edge that would close a cycle against that cycle
// first. `top_` says which tree a node is in (union-find). Splitting a tree does not relabel its
// nodes: a stale "same tree" only costs a search.
class ForestMaker {
 public:
  ForestMaker(const std::vector<Edge>& edges, size_t nodes, Budget& budget)
      : edges_(edges), budget_(budget) {
    Resize(edges_of_, nodes, budget);
    Resize(seen_, nodes, budget);
    Resize(via_, nodes, budget);
    top_ = InOrder(nodes);
  }

  void Add(int32_t index) {
    const Edge& edge = edges_[index];
    while (*edge.flow > 0 && Top(edge.item) == Top(edge.bin) && FindPath(edge.bin, edge.item)) {
      Cancel(index);
    }
    if (*edge.flow == 0) return;
    edges_of_[edge.item].push_back(index);
    edges_of_[edge.bin].push_back(index);
    top_[Top(edge.item)] = Top(edge.bin);
  }

 private:
  int32_t Top(int32_t node) {
    while (top_[node] != node) node = top_[node] = top_[top_[node]];
    return node;
  }

  int32_t Other(int32_t edge, int32_t node) const {
    return edges_[edge].item + edges_[edge].bin - node;
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
      for (const int32_t edge : edges_of_[node]) {
        const int32_t next = Other(edge, node);
        if (seen_[next] == mark_) continue;
        seen_[next] = mark_;
        via_[next] = edge;
        queue_.push_back(next);
      }
    }
    return false;
  }

  // Cancels the cycle of the edge and the path that FindPath() found last, from the edge's bin to
  // its item. Its edges alternately give and take flow.
  void Cancel(int32_t index) {
    std::vector<int32_t> cycle = {index};
    for (int32_t node = edges_[index].item; node != edges_[index].bin;) {
      cycle.push_back(via_[node]);
      node = Other(via_[node], node);
    }
    // Edges at even places lose or gain together. Empties the parity that has the smaller edge.
    int64_t least[2] = {*edges_[cycle[0]].flow, *edges_[cycle[1]].flow};
    for (size_t i = 0; i < cycle.size(); ++i) {
      least[i % 2] = std::min(least[i % 2], *edges_[cycle[i]].flow);
    }
    const size_t losing = least[0] <= least[1] ? 0 : 1;
    for (size_t i = 0; i < cycle.size(); ++i) {
      *edges_[cycle[i]].flow += i % 2 == losing ? -least[losing] : least[losing];
    }
    for (size_t i = 1; i < cycle.size(); ++i) {
      if (*edges_[cycle[i]].flow == 0) Remove(cycle[i]);
    }
  }

  void Remove(int32_t edge) {
    for (const int32_t node : {edges_[edge].item, edges_[edge].bin}) {
      auto& edges = edges_of_[node];
      edges.erase(std::find(edges.begin(), edges.end(), edge));
    }
  }

  const std::vector<Edge>& edges_;
  Budget& budget_;
  std::vector<absl::InlinedVector<int32_t, 4>> edges_of_;
  std::vector<int32_t> top_;
  std::vector<int64_t> seen_;
  std::vector<int32_t> via_;  // edge by which the search reached a node, where seen_
  std::vector<int32_t> queue_;
  int64_t mark_ = 0;
};

}  // namespace

void CancelCycles(const std::vector<int32_t>& edge_bin, const std::vector<int64_t>& first_edge,
                  int32_t bin_count, const std::vector<bool>& fixed, std::vector<int64_t>& flow,
                  Budget& budget) {
  std::vector<Edge> edges;
  int32_t nodes = bin_count;
  for (size_t i = 0; i + 1 < first_edge.size(); ++i) {
    if (budget.Spent()) return;
    const auto begin = flow.begin() + first_edge[i], end = flow.begin() + first_edge[i + 1];
    if (fixed[i] || std::count_if(begin, end, [](int64_t bits) { return bits > 0; }) < 2) continue;
    for (int64_t e = first_edge[i]; e < first_edge[i + 1]; ++e) {
      if (flow[e] > 0) edges.push_back({.item = nodes, .bin = edge_bin[e], .flow = &flow[e]});
    }
    ++nodes;
  }
  ForestMaker maker(edges, nodes, budget);
  for (size_t e = 0; e < edges.size() && !budget.Spent(); ++e) maker.Add(static_cast<int32_t>(e));
}

}  // namespace remesh::planner
