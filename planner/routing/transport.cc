// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/transport.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "planner/routing/forest.h"

namespace remesh {
namespace {

// Dinic's algorithm on source -> items -> bins -> sink. Item i is node i, bin j is node items + j.
class Flow {
 public:
  Flow(const TransportProblem& problem, const Rational& t)
      : problem_(problem), items_(static_cast<int32_t>(problem.items.size())) {
    for (const auto& item : problem.items) {
      first_edge_.push_back(static_cast<int64_t>(edge_bin_.size()));
      edge_bin_.insert(edge_bin_.end(), item.bins.begin(), item.bins.end());
    }
    first_edge_.push_back(static_cast<int64_t>(edge_bin_.size()));
    flow_.assign(edge_bin_.size(), 0);
    left_.assign(items_, 0);
    for (int64_t capacity : problem.capacity) room_.push_back(t.CeilTimes(capacity));
    IndexBins();
  }

  // Opens priorities one by one, preferred bins first. True when all demands are met.
  bool Run() {
    std::vector<int32_t> priorities;
    for (const auto& item : problem_.items) priorities.push_back(item.priority);
    std::sort(priorities.begin(), priorities.end());
    priorities.erase(std::unique(priorities.begin(), priorities.end()), priorities.end());
    for (int32_t priority : priorities) {
      for (int32_t i = 0; i < items_; ++i) {
        if (problem_.items[i].priority == priority) left_[i] = problem_.items[i].demand;
      }
      opened_ = priority;
      for (int32_t i = 0; i < items_; ++i) DealEvenly(i);
      preferred_only_ = true;
      Augment();
      preferred_only_ = false;
      Augment();
    }
    return std::all_of(left_.begin(), left_.end(), [](int64_t left) { return left == 0; });
  }

  // Items that unmet demand can push around, and all the bins they could use.
  void Cut(std::vector<int32_t>& items, std::vector<int32_t>& bins) {
    Levels();
    for (int32_t i = 0; i < items_; ++i) {
      if (level_[i] >= 0) items.push_back(i);
    }
    for (int32_t j = 0; j < static_cast<int32_t>(room_.size()); ++j) {
      if (level_[items_ + j] >= 0) bins.push_back(j);
    }
  }

  std::vector<std::vector<int64_t>> TakeFlow() {
    std::vector<bool> fixed;
    for (const auto& item : problem_.items) fixed.push_back(item.even);
    CancelCycles(edge_bin_, first_edge_, static_cast<int32_t>(room_.size()), fixed, flow_);
    std::vector<std::vector<int64_t>> flow;
    for (int32_t i = 0; i < items_; ++i) {
      flow.emplace_back(flow_.begin() + first_edge_[i], flow_.begin() + first_edge_[i + 1]);
    }
    return flow;
  }

 private:
  void IndexBins() {
    bin_first_.assign(room_.size() + 1, 0);
    for (int32_t bin : edge_bin_) ++bin_first_[bin + 1];
    for (size_t j = 0; j < room_.size(); ++j) bin_first_[j + 1] += bin_first_[j];
    bin_edges_.resize(edge_bin_.size());
    edge_item_.resize(edge_bin_.size());
    std::vector<int64_t> next(bin_first_.begin(), bin_first_.end() - 1);
    for (int32_t i = 0; i < items_; ++i) {
      for (int64_t e = first_edge_[i]; e < first_edge_[i + 1]; ++e) {
        edge_item_[e] = i;
        bin_edges_[next[edge_bin_[e]]++] = e;
      }
    }
  }

  void DealEvenly(int32_t item) {
    const TransportProblem::Item& it = problem_.items[item];
    if (!it.even || it.priority != opened_) return;
    const int64_t first = first_edge_[item];
    const int64_t count = it.preferred > 0 ? it.preferred : first_edge_[item + 1] - first;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t share = MulDiv(it.demand, k + 1, count) - MulDiv(it.demand, k, count);
      int64_t& room = room_[edge_bin_[first + k]];
      const int64_t given = std::min({share, room, left_[item]});
      flow_[first + k] += given;
      room -= given;
      left_[item] -= given;
    }
  }

  // Edges of an item that are open: all, or only the preferred ones where it has any of those.
  int64_t EndOfOpen(int32_t item) const {
    const TransportProblem::Item& it = problem_.items[item];
    if (!preferred_only_ || it.priority < opened_ || it.preferred == 0)
      return first_edge_[item + 1];
    return first_edge_[item] + it.preferred;
  }

  // Breadth first from the items with demand left; true when a bin with room is reached.
  bool Levels() {
    level_.assign(items_ + room_.size(), -1);
    queue_.clear();
    for (int32_t i = 0; i < items_; ++i) {
      if (left_[i] > 0) Reach(i, 0);
    }
    bool found = false;
    for (size_t q = 0; q < queue_.size(); ++q) {
      const int32_t node = queue_[q];
      if (node < items_) {
        for (int64_t e = first_edge_[node]; e < EndOfOpen(node); ++e) {
          Reach(items_ + edge_bin_[e], level_[node] + 1);
        }
        continue;
      }
      const int32_t bin = node - items_;
      found = found || room_[bin] > 0;
      for (int64_t k = bin_first_[bin]; k < bin_first_[bin + 1]; ++k) {
        if (flow_[bin_edges_[k]] > 0) Reach(edge_item_[bin_edges_[k]], level_[node] + 1);
      }
    }
    return found;
  }

  void Reach(int32_t node, int32_t level) {
    if (level_[node] >= 0) return;
    level_[node] = level;
    queue_.push_back(node);
  }

  void Augment() {
    while (Levels()) {
      cursor_.assign(level_.size(), 0);
      for (int32_t i = 0; i < items_; ++i) {
        while (left_[i] > 0 && level_[i] == 0) {
          const int64_t pushed = PushFrom(i, left_[i]);
          if (pushed == 0) break;
          left_[i] -= pushed;
        }
      }
    }
  }

  // Pushes along one path of rising levels, found by an explicit stack of edges.
  int64_t PushFrom(int32_t item, int64_t most) {
    std::vector<int64_t> path;  // edges: item -> bin, bin -> item, in turn
    int32_t node = item;
    while (true) {
      if (node >= items_ && room_[node - items_] > 0) return Apply(path, most, node - items_);
      const int64_t edge = NextEdge(node);
      if (edge >= 0) {
        path.push_back(edge);
        node = node < items_ ? items_ + edge_bin_[edge] : edge_item_[edge];
        continue;
      }
      if (path.empty()) return 0;
      const int64_t back = path.back();
      path.pop_back();
      node = path.size() % 2 == 0 ? edge_item_[back] : items_ + edge_bin_[back];
      ++cursor_[node];
    }
  }

  // The next edge of `node` that leads one level down with room left, or -1.
  int64_t NextEdge(int32_t node) {
    if (node < items_) {
      for (int64_t e = first_edge_[node] + cursor_[node]; e < EndOfOpen(node);
           ++e, ++cursor_[node]) {
        if (level_[items_ + edge_bin_[e]] == level_[node] + 1) return e;
      }
      return -1;
    }
    const int32_t bin = node - items_;
    for (int64_t k = bin_first_[bin] + cursor_[node]; k < bin_first_[bin + 1];
         ++k, ++cursor_[node]) {
      const int64_t e = bin_edges_[k];
      if (flow_[e] > 0 && level_[edge_item_[e]] == level_[node] + 1) return e;
    }
    return -1;
  }

  int64_t Apply(const std::vector<int64_t>& path, int64_t most, int32_t bin) {
    int64_t pushed = std::min(most, room_[bin]);
    for (size_t i = 1; i < path.size(); i += 2) pushed = std::min(pushed, flow_[path[i]]);
    for (size_t i = 0; i < path.size(); ++i) flow_[path[i]] += i % 2 == 0 ? pushed : -pushed;
    room_[bin] -= pushed;
    return pushed;
  }

  const TransportProblem& problem_;
  const int32_t items_;
  std::vector<int64_t> first_edge_;  // item -> edges
  std::vector<int32_t> edge_bin_;
  std::vector<int32_t> edge_item_;
  std::vector<int64_t> bin_first_;  // bin -> places in bin_edges_
  std::vector<int64_t> bin_edges_;
  std::vector<int64_t> flow_;
  std::vector<int64_t> left_;
  std::vector<int64_t> room_;
  std::vector<int32_t> level_;
  std::vector<int64_t> cursor_;
  std::vector<int32_t> queue_;
  int32_t opened_ = 0;
  bool preferred_only_ = false;
};

}  // namespace

TransportSolution SolveTransport(const TransportProblem& problem, const Rational& at_least) {
  TransportSolution solution{.t = at_least, .flow = {}, .tight_items = {}, .tight_bins = {}};
  while (true) {
    Flow flow(problem, solution.t);
    if (flow.Run()) {
      solution.flow = flow.TakeFlow();
      return solution;
    }
    solution.tight_items.clear();
    solution.tight_bins.clear();
    flow.Cut(solution.tight_items, solution.tight_bins);
    Rational next{0, 0};
    for (int32_t i : solution.tight_items) next.num += problem.items[i].demand;
    for (int32_t j : solution.tight_bins) next.den += problem.capacity[j];
    solution.t = next;
  }
}

std::vector<std::vector<int64_t>> FillTransport(const TransportProblem& problem,
                                                const Rational& t) {
  Flow flow(problem, t);
  flow.Run();
  return flow.TakeFlow();
}

}  // namespace remesh
