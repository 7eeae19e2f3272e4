// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/values/box.h"

namespace remesh::planner {

// Two indices i < j of boxes that share an element, or nullopt when all are disjoint. Sweeps along
// the dimension whose projections meet least: O(n log n) for grids, O(n^2) at worst. REQUIRES:
// equal ranks, no empty box.
std::optional<std::pair<size_t, size_t>> FindOverlap(absl::Span<const Box> boxes);

// The slab decomposition of a union of disjoint boxes, sorted: cut along dimension 0 exactly where
// the cross-section changes, each slab decomposed likewise in the dimensions that follow. It
// depends on the union alone, and is the product of intervals where the union is one. Example:
// {[0:1,0:4], [1:2,0:2], [1:2,2:4]} -> {[0:2,0:4]}. A union whose decomposition would exceed 4n +
// 64 boxes comes back as the sorted input. REQUIRES: equal ranks, no empty box, all disjoint.
std::vector<Box> SlabDecomposition(std::vector<Box> boxes);

}  // namespace remesh::planner
