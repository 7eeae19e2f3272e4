// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/transportation.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "planner/routing/forest.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

// Dinic's algorithm on source -> items -> bins -> groups -> sink. Item i is node i, bin j is node
// items + j, group g is node items + bins + g. Bins and groups form the forest of *places*, which
// are numbered in the same order from 0. A step along edge e is e, a step back along it is ~e; the
// edge up from place p is edge edges + p.
class Flow {
 public:
  Flow(const TransportationProblem& problem, const Rational& t, Budget& budget)
      : problem_(problem),
        budget_(budget),
        items_(static_cast<int32_t>(problem.items.size())),
        bins_(static_cast<int32_t>(problem.capacity.size())) {
    Reserve(first_edge_, problem.items.size() + 1);
    for (const auto& item : problem.items) {
      if (budget.Spent()) return;
      first_edge_.push_back(static_cast<int64_t>(edge_bin_.size()));
      edge_bin_.insert(edge_bin_.end(), item.bins.begin(), item.bins.end());
    }
    first_edge_.push_back(static_cast<int64_t>(edge_bin_.size()));
    Resize(flow_, edge_bin_.size(), budget);
    Resize(left_, items_, budget);
    for (int64_t capacity : problem.capacity) full_.push_back(t.CeilTimes(capacity));
    for (const auto& group : problem.groups) {
      full_.push_back(t.CeilTimes(group.capacity) + group.inside);
    }
    room_ = full_;
    if (budget.SpentNow()) return;
    IndexBins();
    IndexGroups();
  }

  // Opens priorities one by one, preferred bins first. True when all demands are met.
  bool Run() {
    if (budget_.SpentNow()) return false;
    for (int32_t priority : Priorities()) {
      for (int32_t i = 0; i < items_ && !budget_.Spent(); ++i) {
        if (problem_.items[i].priority == priority) left_[i] = problem_.items[i].demand;
      }
      opened_ = priority;
      for (int32_t i = 0; i < items_ && !budget_.Spent(); ++i) DealEvenly(i);
      preferred_only_ = true;
      Augment();
      preferred_only_ = false;
      Augment();
    }
    return std::all_of(left_.begin(), left_.end(), [](int64_t left) { return left == 0; });
  }

  // Finds the items that unmet demand can push around, and the full places that keep it from the
  // sink.
  void Cut(TransportationSolution& solution) {
    Levels();
    solution.tight_items.clear();
    solution.tight_bins.clear();
    solution.tight_groups.clear();
    for (int32_t i = 0; i < items_; ++i) {
      if (level_[i] >= 0) solution.tight_items.push_back(i);
    }
    for (int32_t p = 0; p < static_cast<int32_t>(room_.size()); ++p) {
      if (level_[items_ + p] < 0) continue;
      if (parent_[p] >= 0 && level_[items_ + parent_[p]] >= 0) continue;
      if (p < bins_) {
        solution.tight_bins.push_back(p);
      } else {
        solution.tight_groups.push_back(p - bins_);
      }
    }
  }

  // The result must not be used once the budget is spent.
  std::vector<Served> TakeFlow() {
    if (budget_.SpentNow()) return {};
    std::vector<bool> fixed;
    for (const auto& item : problem_.items) {
      if (budget_.Spent()) return {};
      fixed.push_back(item.even);
    }
    // What only the search needs, for as much is needed now.
    bin_edges_ = std::vector<int64_t>();
    edge_item_ = std::vector<int32_t>();
    cursor_ = std::vector<int64_t>();
    CancelCycles(edge_bin_, first_edge_, bins_, fixed, flow_, budget_);
    std::vector<Served> flow;
    Reserve(flow, items_);
    for (int32_t i = 0; i < items_; ++i) {
      if (budget_.Spent()) return {};
      flow.emplace_back(flow_.begin() + first_edge_[i], flow_.begin() + first_edge_[i + 1]);
    }
    return flow;
  }

 private:
  // The priorities of all items, rising. They are few. Incomplete once the budget is spent.
  std::vector<int32_t> Priorities() const {
    std::vector<int32_t> priorities;
    for (const auto& item : problem_.items) {
      if (budget_.Spent()) break;
      if (std::find(priorities.begin(), priorities.end(), item.priority) == priorities.end()) {
        priorities.push_back(item.priority);
      }
    }
    std::sort(priorities.begin(), priorities.end());
    return priorities;
  }

  void IndexBins() {
    bin_first_.assign(bins_ + 1, 0);
    for (int32_t bin : edge_bin_) {
      if (budget_.Spent()) return;
      ++bin_first_[bin + 1];
    }
    for (int32_t j = 0; j < bins_; ++j) bin_first_[j + 1] += bin_first_[j];
    Resize(bin_edges_, edge_bin_.size(), budget_);
    Resize(edge_item_, edge_bin_.size(), budget_);
    std::vector<int64_t> next(bin_first_.begin(), bin_first_.end() - 1);
    for (int32_t i = 0; i < items_; ++i) {
      if (budget_.Spent()) return;
      for (int64_t e = first_edge_[i]; e < first_edge_[i + 1]; ++e) {
        edge_item_[e] = i;
        bin_edges_[next[edge_bin_[e]]++] = e;
      }
    }
  }

  void IndexGroups() {
    parent_.assign(room_.size(), -1);
    below_.resize(problem_.groups.size());
    for (size_t p = 0; p < room_.size() && !below_.empty(); ++p) {
      const bool bin = p < problem_.capacity.size();
      const int32_t group = bin ? problem_.group_of[p] : problem_.groups[p - bins_].parent;
      if (group < 0) continue;
      parent_[p] = bins_ + group;
      below_[group].push_back(static_cast<int32_t>(p));
    }
  }

  void DealEvenly(int32_t item) {
    const TransportationProblem::Item& it = problem_.items[item];
    if (!it.even || it.priority != opened_) return;
    const int64_t first = first_edge_[item];
    const int64_t count = it.preferred > 0 ? it.preferred : first_edge_[item + 1] - first;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t share = MulDiv(it.demand, k + 1, count) - MulDiv(it.demand, k, count);
      const int32_t bin = edge_bin_[first + k];
      int64_t given = std::min(share, left_[item]);
      for (int32_t p = bin; p >= 0; p = parent_[p]) given = std::min(given, room_[p]);
      for (int32_t p = bin; p >= 0; p = parent_[p]) room_[p] -= given;
      flow_[first + k] += given;
      left_[item] -= given;
    }
  }

  // The end of an item's open edges: all of them, or only the preferred ones if it has any.
  int64_t EndOfOpen(int32_t item) const {
    const TransportationProblem::Item& it = problem_.items[item];
    if (!preferred_only_ || it.priority < opened_ || it.preferred == 0)
      return first_edge_[item + 1];
    return first_edge_[item] + it.preferred;
  }

  // Searches breadth first from the items with demand left. True when it reaches a place next to
  // the sink that has room.
  bool Levels() {
    Reserve(level_, items_ + room_.size());
    level_.assign(items_ + room_.size(), -1);
    queue_.clear();
    for (int32_t i = 0; i < items_; ++i) {
      if (budget_.Spent()) return false;
      if (left_[i] > 0) Reach(i, 0);
    }
    bool found = false;
    for (size_t q = 0; q < queue_.size() && !budget_.Spent(); ++q) {
      const int32_t node = queue_[q];
      if (node < items_) {
        for (int64_t e = first_edge_[node]; e < EndOfOpen(node); ++e) {
          Reach(items_ + edge_bin_[e], level_[node] + 1);
        }
        continue;
      }
      found = ReachFromPlace(node - items_, level_[node] + 1) || found;
    }
    return found;
  }

  // True when the next step is the sink.
  bool ReachFromPlace(int32_t place, int32_t level) {
    if (place < bins_) {
      for (int64_t k = bin_first_[place]; k < bin_first_[place + 1]; ++k) {
        if (flow_[bin_edges_[k]] > 0) Reach(edge_item_[bin_edges_[k]], level);
      }
    } else {
      for (int32_t p : below_[place - bins_]) {
        if (room_[p] < full_[p]) Reach(items_ + p, level);
      }
    }
    if (room_[place] == 0) return false;
    if (parent_[place] < 0) return true;
    Reach(items_ + parent_[place], level);
    return false;
  }

  void Reach(int32_t node, int32_t level) {
    if (level_[node] >= 0) return;
    level_[node] = level;
    queue_.push_back(node);
  }

  void Augment() {
    while (!budget_.SpentNow() && Levels()) {
      Reserve(cursor_, level_.size());
      cursor_.assign(level_.size(), 0);
      for (int32_t i = 0; i < items_; ++i) {
        while (left_[i] > 0 && level_[i] == 0 && !budget_.Spent()) {
          const int64_t pushed = PushFrom(i, left_[i]);
          if (pushed == 0) break;
          left_[i] -= pushed;
        }
      }
    }
  }

  // Pushes along one path of rising levels, found with an explicit stack of steps.
  int64_t PushFrom(int32_t item, int64_t most) {
    std::vector<int64_t> path;
    int32_t node = item;
    while (true) {
      if (node >= items_ && parent_[node - items_] < 0 && room_[node - items_] > 0) {
        return Apply(path, most, node - items_);
      }
      if (NextStep(node, path)) {
        node = path.back() >= 0 ? Head(path.back()) : Tail(~path.back());
        continue;
      }
      if (path.empty()) return 0;
      node = path.back() >= 0 ? Tail(path.back()) : Head(~path.back());
      path.pop_back();
      ++cursor_[node];
    }
  }

  int32_t Tail(int64_t edge) const {
    const int64_t place = edge - static_cast<int64_t>(edge_bin_.size());
    return place < 0 ? edge_item_[edge] : items_ + static_cast<int32_t>(place);
  }

  int32_t Head(int64_t edge) const {
    const int64_t place = edge - static_cast<int64_t>(edge_bin_.size());
    return items_ + (place < 0 ? edge_bin_[edge] : parent_[place]);
  }

  // Appends the next step from `node` that leads one level on and has room; false when there is
  // none.
  bool NextStep(int32_t node, std::vector<int64_t>& path) {
    if (node >= items_) return NextStepFromPlace(node, path);
    for (int64_t e = first_edge_[node] + cursor_[node]; e < EndOfOpen(node); ++e, ++cursor_[node]) {
      if (level_[items_ + edge_bin_[e]] != level_[node] + 1) continue;
      path.push_back(e);
      return true;
    }
    return false;
  }

  // From a place, flow may go up (way 0), or back along an edge that brought flow in.
  bool NextStepFromPlace(int32_t node, std::vector<int64_t>& path) {
    const int32_t place = node - items_;
    const int64_t ups = static_cast<int64_t>(edge_bin_.size());
    const auto next = [&](int32_t to) { return level_[to] == level_[node] + 1; };
    if (cursor_[node] == 0) {
      if (parent_[place] >= 0 && room_[place] > 0 && next(items_ + parent_[place])) {
        path.push_back(ups + place);
        return true;
      }
      ++cursor_[node];
    }
    if (place < bins_) {
      for (int64_t k = bin_first_[place] + cursor_[node] - 1; k < bin_first_[place + 1];
           ++k, ++cursor_[node]) {
        const int64_t e = bin_edges_[k];
        if (flow_[e] == 0 || !next(edge_item_[e])) continue;
        path.push_back(~e);
        return true;
      }
      return false;
    }
    const std::vector<int32_t>& below = below_[place - bins_];
    for (size_t k = cursor_[node] - 1; k < below.size(); ++k, ++cursor_[node]) {
      if (room_[below[k]] == full_[below[k]] || !next(items_ + below[k])) continue;
      path.push_back(~(ups + below[k]));
      return true;
    }
    return false;
  }

  // The amount that a step can still carry.
  int64_t RoomOf(int64_t step) const {
    const int64_t place = (step >= 0 ? step : ~step) - static_cast<int64_t>(edge_bin_.size());
    if (place >= 0) return step >= 0 ? room_[place] : full_[place] - room_[place];
    return step >= 0 ? std::numeric_limits<int64_t>::max() : flow_[~step];
  }

  int64_t Apply(const std::vector<int64_t>& path, int64_t most, int32_t last) {
    int64_t pushed = std::min(most, room_[last]);
    for (int64_t step : path) pushed = std::min(pushed, RoomOf(step));
    for (int64_t step : path) {
      const int64_t edge = step >= 0 ? step : ~step;
      const int64_t change = step >= 0 ? pushed : -pushed;
      const int64_t place = edge - static_cast<int64_t>(edge_bin_.size());
      if (place >= 0) {
        room_[place] -= change;
      } else {
        flow_[edge] += change;
      }
    }
    room_[last] -= pushed;
    return pushed;
  }

  const TransportationProblem& problem_;
  Budget& budget_;
  const int32_t items_;
  const int32_t bins_;
  std::vector<int64_t> first_edge_;  // item -> edges
  std::vector<int32_t> edge_bin_;
  std::vector<int32_t> edge_item_;
  std::vector<int64_t> bin_first_;  // bin -> places in bin_edges_
  std::vector<int64_t> bin_edges_;
  std::vector<int64_t> flow_;
  std::vector<int64_t> left_;
  std::vector<int64_t> full_;  // of places: initial room
  std::vector<int64_t> room_;
  std::vector<int32_t> parent_;              // of places, -1: the sink
  std::vector<std::vector<int32_t>> below_;  // group -> places
  std::vector<int32_t> level_;
  std::vector<int64_t> cursor_;
  std::vector<int32_t> queue_;
  int32_t opened_ = 0;
  bool preferred_only_ = false;
};

}  // namespace

namespace {

// Solves the problem and hands the flow at the solution's t to `use`.
template <typename Use>
TransportationSolution Solved(const TransportationProblem& problem, const Rational& at_least,
                              Budget& budget, const Use& use) {
  TransportationSolution solution{.t = at_least, .flow = {}};
  while (true) {
    Flow flow(problem, solution.t, budget);
    const bool met = flow.Run();
    if (!met && !budget.SpentNow()) flow.Cut(solution);
    if (met || budget.SpentNow()) {
      use(flow, solution);
      return solution;
    }
    Rational next{0, 0};
    for (int32_t i : solution.tight_items) next.num += problem.items[i].demand;
    for (int32_t j : solution.tight_bins) next.den += problem.capacity[j];
    for (int32_t g : solution.tight_groups) {
      next.num -= problem.groups[g].inside;
      next.den += problem.groups[g].capacity;
    }
    REMESH_CHECK(solution.t < next);
    solution.t = next;
  }
}

}  // namespace

TransportationSolution SolveTransportation(const TransportationProblem& problem,
                                           const Rational& at_least, Budget& budget) {
  return Solved(problem, at_least, budget, [](Flow& flow, TransportationSolution& solution) {
    solution.flow = flow.TakeFlow();
  });
}

TransportationSolution BoundTransportation(const TransportationProblem& problem,
                                           const Rational& at_least, Budget& budget) {
  return Solved(problem, at_least, budget, [](Flow&, TransportationSolution&) {});
}

std::vector<Served> FillTransportation(const TransportationProblem& problem, const Rational& t,
                                       Budget& budget) {
  Flow flow(problem, t, budget);
  flow.Run();
  return flow.TakeFlow();
}

}  // namespace remesh::planner
