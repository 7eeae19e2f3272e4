// SPDX-License-Identifier: Apache-2.0
#include "planner/order/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace remesh::planner {
namespace {

int64_t WeightOf(const std::vector<int32_t>& matching, const std::vector<WeightedEdge>& edges) {
  __int128 weight = 0;
  for (const WeightedEdge& edge : edges) {
    if (matching[edge.left] == edge.right) weight += edge.weight;
  }
  return static_cast<int64_t>(weight);
}

// Tries all assignments.
int64_t Best(int32_t left, int32_t lefts, std::vector<bool>& taken,
             const std::vector<WeightedEdge>& edges) {
  if (left == lefts) return 0;
  int64_t best = Best(left + 1, lefts, taken, edges);
  for (const WeightedEdge& edge : edges) {
    if (edge.left != left || taken[edge.right]) continue;
    taken[edge.right] = true;
    best = std::max(best, static_cast<int64_t>(edge.weight) + Best(left + 1, lefts, taken, edges));
    taken[edge.right] = false;
  }
  return best;
}

TEST(AssignmentTest, GreedyWouldLose) {
  const std::vector<WeightedEdge> edges = {{0, 0, 10}, {0, 1, 9}, {1, 0, 9}};
  EXPECT_EQ(MaxWeightMatching(2, 2, edges), (std::vector<int32_t>{1, 0}));
}

TEST(AssignmentTest, AnyNodeMayStayAlone) {
  EXPECT_EQ(MaxWeightMatching(2, 1, std::vector<WeightedEdge>{{1, 0, 3}}),
            (std::vector<int32_t>{-1, 0}));
}

TEST(AssignmentTest, NothingBeatsIt) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    const int32_t lefts = 1 + static_cast<int32_t>(random() % 5);
    const int32_t rights = 1 + static_cast<int32_t>(random() % 5);
    std::vector<WeightedEdge> edges;
    for (int32_t l = 0; l < lefts; ++l) {
      for (int32_t r = 0; r < rights; ++r) {
        if (random() % 2 == 0) edges.push_back({l, r, 1 + static_cast<int64_t>(random() % 20)});
      }
    }
    std::vector<bool> taken(rights, false);
    const std::vector<int32_t> matching = MaxWeightMatching(lefts, rights, edges);
    EXPECT_EQ(WeightOf(matching, edges), Best(0, lefts, taken, edges));
  }
}

// Finds prices that prove a matching optimal, without the matcher: every price is >= 0; the prices
// of an edge's ends add up to at least its weight, and to exactly its weight where it is matched;
// an unmatched node costs nothing. While a left node could gain by taking another's place, the
// prices of rights rise until it could not. They stop rising exactly when no exchange gains.
bool PricesProve(const std::vector<int32_t>& matching, int32_t rights,
                 const std::vector<WeightedEdge>& edges) {
  std::vector<__int128> weight(matching.size(), 0), price(rights, 0);
  std::vector<int32_t> left_of(rights, -1);
  for (size_t l = 0; l < matching.size(); ++l) {
    if (matching[l] >= 0) left_of[matching[l]] = static_cast<int32_t>(l);
  }
  for (const WeightedEdge& edge : edges) {
    if (matching[edge.left] == edge.right) weight[edge.left] = edge.weight;
  }
  const auto profit = [&](int32_t l) {
    return weight[l] - (matching[l] < 0 ? 0 : price[matching[l]]);
  };
  bool changed = true;
  for (int32_t round = 0; changed && round <= rights; ++round) {
    changed = false;
    for (const WeightedEdge& edge : edges) {
      const __int128 least = edge.weight - profit(edge.left);
      if (price[edge.right] >= least) continue;
      price[edge.right] = least;
      changed = true;
    }
  }
  if (changed) return false;
  for (int32_t r = 0; r < rights; ++r) {
    if (left_of[r] < 0 && price[r] != 0) return false;
  }
  for (size_t l = 0; l < matching.size(); ++l) {
    if (profit(static_cast<int32_t>(l)) < 0) return false;
  }
  return true;
}

// Flat shards over 256 of 272 devices and some chords: exchanges run through hundreds of nodes.
std::vector<WeightedEdge> ShiftedEdges(std::mt19937_64& random) {
  std::vector<WeightedEdge> edges;
  for (int32_t l = 0; l < 256; ++l) {
    const int32_t near = l * 17 / 16 % 256;
    for (int32_t r : {near, (near + 1) % 256, static_cast<int32_t>(random() % 256)}) {
      const bool repeated = std::any_of(edges.begin(), edges.end(), [&](const WeightedEdge& e) {
        return e.left == l && e.right == r;
      });
      if (!repeated) edges.push_back({l, r, 1 + static_cast<int64_t>(random() % 1000)});
    }
  }
  return edges;
}

TEST(AssignmentTest, PricesProveALargeMatching) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20; ++round) {
    const std::vector<WeightedEdge> edges = ShiftedEdges(random);
    std::vector<int32_t> matching = MaxWeightMatching(256, 256, edges);
    EXPECT_TRUE(PricesProve(matching, 256, edges));
    // The check is strict: it fails for a matching of less weight.
    const auto some =
        std::find_if(matching.begin(), matching.end(), [](int32_t r) { return r >= 0; });
    *some = -1;
    EXPECT_FALSE(PricesProve(matching, 256, edges));
  }
}

TEST(AssignmentTest, WeightsMayBeWide) {
  const auto both = [](int64_t upper, int64_t lower) {
    return (static_cast<__int128>(upper) << 62) + lower;
  };
  const int64_t most = (int64_t{1} << 61) - 1;
  const std::vector<WeightedEdge> edges = {
      {0, 0, both(most, 0)}, {0, 1, both(most - 1, most)}, {1, 0, both(1, 5)}, {1, 1, both(1, 4)}};
  EXPECT_EQ(MaxWeightMatching(2, 2, edges), (std::vector<int32_t>{0, 1}));
}

std::pair<int64_t, int64_t> WorthOf(const std::vector<int32_t>& assignment,
                                    const std::vector<PairCost>& costs) {
  std::pair<int64_t, int64_t> worth;
  for (size_t l = 0; l < assignment.size(); ++l) {
    const PairCost& pair = costs[l * assignment.size() + assignment[l]];
    worth.first = std::max(worth.first, pair.load);
    worth.second += pair.cost;
  }
  return worth;
}

TEST(AssignmentTest, TheBottleneckGoesBeforeTheTotal) {
  // Assigning 0 and 1 crosswise would cost 5 in all too, but with a load of 5 at one place.
  const std::vector<PairCost> costs = {{4, 4}, {5, 5}, {0, 0}, {4, 4}};
  EXPECT_EQ(BottleneckAssignment(2, costs), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(BottleneckAssignment(0, {}), std::vector<int32_t>{});
}

TEST(AssignmentTest, NoPermutationHasALesserBottleneckOrTotal) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    const int32_t n = 1 + static_cast<int32_t>(random() % 6);
    std::vector<PairCost> costs;
    for (int32_t i = 0; i < n * n; ++i) {
      costs.push_back({static_cast<int64_t>(random() % 6), static_cast<int64_t>(random() % 12)});
    }
    const auto [bottleneck, total] = WorthOf(BottleneckAssignment(n, costs), costs);
    std::vector<int32_t> any(n);
    std::iota(any.begin(), any.end(), 0);
    do {
      const auto [other, other_total] = WorthOf(any, costs);
      EXPECT_GE(other, bottleneck);
      if (other == bottleneck) {
        EXPECT_GE(other_total, total);
      }
    } while (std::next_permutation(any.begin(), any.end()));
  }
}

}  // namespace
}  // namespace remesh::planner
