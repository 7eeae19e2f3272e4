// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "planner/layout.h"
#include "planner/tape.h"

namespace remesh {

// A cell with the tiles that hold it before and need it after (indices of Layout::tiles, of one
// subgroup). A cell that no tile needs does not appear.
struct Cell {
  int32_t id = 0;  // see ArrayClass
  absl::InlinedVector<int32_t, 2> source_tiles;
  absl::InlinedVector<int32_t, 2> target_tiles;
};

inline constexpr int64_t kCellsMax = int64_t{1} << 22;
absl::Status TooManyCells();

// Fills the cells' geometry in `array_class`, whose first_cell is set, and returns the cells,
// subgroup by subgroup. RESOURCE_EXHAUSTED above kCellsMax.
absl::StatusOr<std::vector<Cell>> CutIntoCells(const Layout& source, const Layout& target,
                                               ArrayClass& array_class);

}  // namespace remesh
