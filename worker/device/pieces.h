// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/box.h"

namespace remesh {

inline constexpr int64_t kPieceBytesMax = int64_t{4} << 20;

// Cuts `box` into boxes of at most `max_bytes` (one element, if that is more), in row-major order:
// every piece is whole slabs of the outermost dimension that can hold them, so each is contiguous
// once packed. Equal slabs as far as possible; pieces of sub-byte elements start on a byte of the
// packed box wherever a byte's worth fits. A function of its arguments alone: both ends of a
// transfer agree. An empty box has no pieces. REQUIRES: bits_per_element > 0; max_bytes > 0.
std::vector<Box> SplitIntoPieces(const Box& box, int bits_per_element,
                                 int64_t max_bytes = kPieceBytesMax);

}  // namespace remesh
