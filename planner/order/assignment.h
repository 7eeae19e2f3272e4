// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// An edge of a bipartite graph, weight > 0.
struct WeightedEdge {
  int32_t left = 0;
  int32_t right = 0;
  __int128 weight = 0;
};

// The matching of greatest total weight: for each left node its right node, or -1. Breaks ties in
// the same way on any machine. Successive shortest paths with potentials on the sparse graph:
// O(lefts * edges * log) at worst. REQUIRES: at most one edge per pair; the sum, over all lefts, of
// the largest weight is below 2^125.
std::vector<int32_t> MaxWeightMatching(int32_t lefts, int32_t rights,
                                       absl::Span<const WeightedEdge> edges,
                                       Budget& budget = Budget::Unlimited());

// The cost of assigning a left node to a right node.
struct PairCost {
  int64_t load = 0;  // the largest load of an assignment is its bottleneck
  int64_t cost = 0;  // the costs of an assignment add up
};

// Of all assignments of n left nodes to n right nodes, the one with the smallest largest load, and
// among those the one with the least total cost: for each left node its right node. `costs[l * n +
// r]` is the pair (l, r). Finds the bottleneck by halving the sorted loads and matching along
// augmenting paths, and the least total by MaxWeightMatching() on the remaining pairs. REQUIRES:
// costs.size() == n * n; costs >= 0, with a sum < 2^62 over the pairs of any assignment.
std::vector<int32_t> BottleneckAssignment(int32_t n, absl::Span<const PairCost> costs);

}  // namespace remesh::planner
