// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/values/box.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Two indices i < j of boxes that share an element, or nullopt when all are disjoint. Sweeps along
// the dimension in which the fewest projections overlap: O(n log n) for grids, O(n^2) at worst.
// Returns nullopt, too, when the budget is spent. REQUIRES: equal ranks, no empty box.
std::optional<std::pair<size_t, size_t>> FindOverlap(absl::Span<const Box> boxes,
                                                     Budget& budget = Budget::Unlimited());

// The slab decomposition of a union of disjoint boxes, sorted. It cuts along dimension 0 exactly
// where the cross-section changes, and decomposes each slab likewise in the dimensions that follow.
// The result depends only on the union, and is one box where the union is a box. Example:
// {[0:1,0:4], [1:2,0:2], [1:2,2:4]} -> {[0:2,0:4]}. If the decomposition would exceed 4n + 64
// boxes, returns the sorted input. REQUIRES: equal ranks, no empty box, all disjoint.
std::vector<Box> SlabDecomposition(std::vector<Box> boxes);

}  // namespace remesh::planner
