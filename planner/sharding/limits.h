// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace remesh::planner {

// Limits on shardings, so that a short text or message never costs much memory or time.
inline constexpr int64_t kPositionsMax = int64_t{1} << 20;  // devices of one sharding
inline constexpr int kTileRankMax = 64;  // dimensions of a tile assignment, axes of a mesh
inline constexpr size_t kTextBytesMax = size_t{16} << 20;  // one sharding as text
inline constexpr int64_t kTupleLeavesMax = 1 << 20;
inline constexpr int64_t kListedPositionsMax = 4 * kPositionsMax;  // by all leaves of a tuple

}  // namespace remesh::planner
