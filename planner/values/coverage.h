// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "planner/values/budget.h"
#include "planner/values/layout.h"

namespace remesh::planner {

// OK when the boxes of all positions other than `lost_positions` cover the array in every subgroup
// of the layout; else INVALID_ARGUMENT (field "boxes") that names an uncovered box; the budget's
// status when that is spent. REQUIRES: lost positions in range.
absl::Status CheckCovers(const Layout& layout, absl::Span<const int32_t> lost_positions = {},
                         Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
