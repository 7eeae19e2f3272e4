// SPDX-License-Identifier: Apache-2.0
#include "planner/assignment.h"

#include <gtest/gtest.h>

#include <random>

namespace remesh {
namespace {

int64_t WeightOf(const std::vector<int32_t>& matching, const std::vector<WeightedEdge>& edges) {
  int64_t weight = 0;
  for (const WeightedEdge& edge : edges) {
    if (matching[edge.left] == edge.right) weight += edge.weight;
  }
  return weight;
}

// Tries everything.
int64_t Best(int32_t left, int32_t lefts, std::vector<bool>& taken,
             const std::vector<WeightedEdge>& edges) {
  if (left == lefts) return 0;
  int64_t best = Best(left + 1, lefts, taken, edges);
  for (const WeightedEdge& edge : edges) {
    if (edge.left != left || taken[edge.right]) continue;
    taken[edge.right] = true;
    best = std::max(best, edge.weight + Best(left + 1, lefts, taken, edges));
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

}  // namespace
}  // namespace remesh
