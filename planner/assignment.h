// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace remesh {

// An edge of a bipartite graph, weight > 0.
struct WeightedEdge {
  int32_t left = 0;
  int32_t right = 0;
  int64_t weight = 0;
};

// The matching of greatest total weight: for each left node its right node, or -1. Ties fall the
// same way on any machine. Successive shortest paths with potentials on the sparse graph: O(lefts *
// edges * log) at worst. REQUIRES: at most one edge per pair.
std::vector<int32_t> MaxWeightMatching(int32_t lefts, int32_t rights,
                                       absl::Span<const WeightedEdge> edges);

}  // namespace remesh
