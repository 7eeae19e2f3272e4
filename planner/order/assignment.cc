// SPDX-License-Identifier: Apache-2.0
#include "planner/order/assignment.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "base/check.h"

namespace remesh::planner {
namespace {

// Minimum-cost matching with cost = -weight. Left node l may also take a right node of its own,
// rights + l, at cost 0, which means that it is unmatched.
class Matcher {
 public:
  Matcher(int32_t lefts, int32_t rights, absl::Span<const WeightedEdge> edges)
      : rights_(rights),
        edges_of_(lefts),
        left_price_(lefts, 0),
        right_price_(rights + lefts, 0),
        match_of_left_(lefts, -1),
        match_of_right_(rights + lefts, -1),
        distance_(rights + lefts, kFar),
        parent_(rights + lefts, -1) {
    for (const WeightedEdge& edge : edges)
      edges_of_[edge.left].push_back({edge.right, -edge.weight});
    for (int32_t l = 0; l < lefts; ++l) {
      edges_of_[l].push_back({rights + l, 0});
      for (const auto& [right, cost] : edges_of_[l]) {
        left_price_[l] = std::min(left_price_[l], cost);
      }
    }
  }

  std::vector<int32_t> Run(Budget& budget) {
    for (int32_t l = 0; l < static_cast<int32_t>(edges_of_.size()) && !budget.SpentNow(); ++l) {
      Augment(l);
    }
    for (int32_t& right : match_of_left_) {
      if (right >= rights_) right = -1;
    }
    return match_of_left_;
  }

 private:
  static constexpr __int128 kFar = std::numeric_limits<__int128>::max();
  using Entry = std::pair<__int128, int32_t>;  // distance, right node

  void Relax(int32_t left, __int128 base) {
    for (const auto& [right, cost] : edges_of_[left]) {
      const __int128 distance = base + cost - left_price_[left] - right_price_[right];
      if (distance >= distance_[right]) continue;
      if (distance_[right] == kFar) touched_.push_back(right);
      distance_[right] = distance;
      parent_[right] = left;
      heap_.emplace(distance, right);
    }
  }

  void Augment(int32_t start) {
    heap_ = {};
    Relax(start, 0);
    std::vector<int32_t> settled;
    int32_t free_right = -1;
    __int128 length = 0;
    while (true) {  // a free right node is always in reach: l's own
      const auto [distance, right] = heap_.top();
      heap_.pop();
      if (distance > distance_[right]) continue;
      if (match_of_right_[right] < 0) {
        free_right = right;
        length = distance;
        break;
      }
      settled.push_back(right);
      Relax(match_of_right_[right], distance);
    }
    left_price_[start] += length;
    for (int32_t right : settled) {
      const __int128 change = distance_[right] - length;
      right_price_[right] += change;
      left_price_[match_of_right_[right]] -= change;
    }
    for (int32_t right = free_right; right >= 0;) {
      const int32_t left = parent_[right];
      match_of_right_[right] = left;
      std::swap(match_of_left_[left], right);
      if (left == start) break;
    }
    for (int32_t right : touched_) distance_[right] = kFar;
    touched_.clear();
  }

  const int32_t rights_;
  std::vector<std::vector<std::pair<int32_t, __int128>>> edges_of_;
  std::vector<__int128> left_price_;
  std::vector<__int128> right_price_;
  std::vector<int32_t> match_of_left_;
  std::vector<int32_t> match_of_right_;
  std::vector<__int128> distance_;
  std::vector<int32_t> parent_;
  std::vector<int32_t> touched_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

// Whether n lefts can be matched to n different rights along the allowed pairs. Augmenting paths by
// depth-first search.
class PerfectMatching {
 public:
  PerfectMatching(int32_t n, const std::vector<bool>& allowed)
      : n_(n), allowed_(allowed), left_of_(n, -1), seen_(n, -1) {}

  bool Exists() {
    for (int32_t left = 0; left < n_; ++left) {
      if (!Augment(left, left)) return false;
    }
    return true;
  }

 private:
  bool Augment(int32_t left, int32_t round) {
    for (int32_t right = 0; right < n_; ++right) {
      if (!Allowed(left, right) || left_of_[right] >= 0) continue;
      left_of_[right] = left;
      return true;
    }
    for (int32_t right = 0; right < n_; ++right) {
      if (!Allowed(left, right) || seen_[right] == round) continue;
      seen_[right] = round;
      if (!Augment(left_of_[right], round)) continue;
      left_of_[right] = left;
      return true;
    }
    return false;
  }
  bool Allowed(int32_t left, int32_t right) const {
    return allowed_[static_cast<size_t>(left) * n_ + right];
  }

  const int32_t n_;
  const std::vector<bool>& allowed_;
  std::vector<int32_t> left_of_;
  std::vector<int32_t> seen_;  // by right: the last round that visited it
};

std::vector<bool> PairsUpTo(int64_t load, absl::Span<const PairCost> costs) {
  std::vector<bool> allowed(costs.size());
  for (size_t i = 0; i < costs.size(); ++i) allowed[i] = costs[i].load <= load;
  return allowed;
}

}  // namespace

std::vector<int32_t> MaxWeightMatching(int32_t lefts, int32_t rights,
                                       absl::Span<const WeightedEdge> edges, Budget& budget) {
  return Matcher(lefts, rights, edges).Run(budget);
}

std::vector<int32_t> BottleneckAssignment(int32_t n, absl::Span<const PairCost> costs) {
  REMESH_CHECK(costs.size() == static_cast<size_t>(n) * n);
  if (n == 0) return {};
  std::vector<int64_t> loads;
  for (const PairCost& pair : costs) loads.push_back(pair.load);
  std::sort(loads.begin(), loads.end());
  const auto bottleneck = std::partition_point(loads.begin(), loads.end() - 1, [&](int64_t load) {
    return !PerfectMatching(n, PairsUpTo(load, costs)).Exists();
  });
  const std::vector<bool> allowed = PairsUpTo(*bottleneck, costs);
  __int128 most = 0;
  for (const PairCost& pair : costs) most = std::max<__int128>(most, pair.cost);
  // A left without a right costs more than all costs together.
  const __int128 bonus = most * n + 1;
  std::vector<WeightedEdge> edges;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (!allowed[i]) continue;
    edges.push_back(
        {static_cast<int32_t>(i / n), static_cast<int32_t>(i % n), bonus + most - costs[i].cost});
  }
  return MaxWeightMatching(n, n, edges);
}

}  // namespace remesh::planner
