// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/budget.h"

namespace remesh::planner {

// Makes the support of a bipartite flow a forest: while the edges with positive flow have a cycle,
// pushes flow round the cycle until one of its edges is empty. Every item's and every bin's total
// stays the same. Leaves out items with fixed[i]. Item i has edges [first_edge[i], first_edge[i +
// 1]); edge e leads to bin edge_bin[e] < bin_count and carries flow[e] >= 0. Cycles may be left
// once the budget is spent.
void CancelCycles(const std::vector<int32_t>& edge_bin, const std::vector<int64_t>& first_edge,
                  int32_t bin_count, const std::vector<bool>& fixed, std::vector<int64_t>& flow,
                  Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
