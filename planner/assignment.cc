// SPDX-License-Identifier: Apache-2.0
#include "planner/assignment.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace remesh {
namespace {

// Minimum cost with cost = -weight. Left node l may also take a right node of its own, rights + l,
// at cost 0: being unmatched.
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

  std::vector<int32_t> Run() {
    for (int32_t l = 0; l < static_cast<int32_t>(edges_of_.size()); ++l) Augment(l);
    for (int32_t& right : match_of_left_) {
      if (right >= rights_) right = -1;
    }
    return match_of_left_;
  }

 private:
  static constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  using Entry = std::pair<int64_t, int32_t>;  // distance, right node

  void Relax(int32_t left, int64_t base) {
    for (const auto& [right, cost] : edges_of_[left]) {
      const int64_t distance = base + cost - left_price_[left] - right_price_[right];
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
    int64_t length = 0;
    while (true) {  // a free right node is always in reach: the start's own
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
      const int64_t change = distance_[right] - length;
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
  std::vector<std::vector<std::pair<int32_t, int64_t>>> edges_of_;
  std::vector<int64_t> left_price_;
  std::vector<int64_t> right_price_;
  std::vector<int32_t> match_of_left_;
  std::vector<int32_t> match_of_right_;
  std::vector<int64_t> distance_;
  std::vector<int32_t> parent_;
  std::vector<int32_t> touched_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

}  // namespace

std::vector<int32_t> MaxWeightMatching(int32_t lefts, int32_t rights,
                                       absl::Span<const WeightedEdge> edges) {
  return Matcher(lefts, rights, edges).Run();
}

}  // namespace remesh
