// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/sharding/hlo_sharding.h"

namespace remesh::planner {

// Finds a sharding through which a move from many shards to few can pass instead of gathering: it
// has as many shards as the target, cut from the source's dimensions, each held by several devices.
// Each set of replicas then moves to the target without another cut. The idea, its conditions and
// the names of its axes are those of Pathways' find_intermediate_sharding.
//
// Example: tiles 8x1 (FSDP over 8) to 1x4 (tensor parallel over 4) pass through 4x1 with 2
// replicas.

// Tiles per dimension of the intermediate sharding. With S and T the numbers of all source and
// target tiles, the source gives up the factor S / T in dimensions that it cuts more than the
// target does, starting with the one that has most tiles.
//
// FAILED_PRECONDITION, reason NO_INTERMEDIATE_SHARDING_NEEDED, when some dimension has a common
// factor on both sides: the move then needs no gather. FAILED_PRECONDITION, reason
// NO_INTERMEDIATE_SHARDING: different ranks; the largest number of tiles is not divisible by the
// target's; S is not larger than T or not divisible by it; no dimension is suitable. Metadata:
// "source_tiles", "target_tiles". REQUIRES: every number >= 1, products fit into int64.
absl::StatusOr<std::vector<int64_t>> IntermediateTiles(absl::Span<const int64_t> source,
                                                       absl::Span<const int64_t> target);

struct IntermediateSharding {
  HloSharding sharding;  // named if the source is, else tiles; over the source's device list
  std::vector<std::string> replicated_axes;  // of a named one: the axes along which replicas lie
  std::vector<int64_t> source_tiles;
  std::vector<int64_t> target_tiles;
  std::vector<int64_t> tiles;
  int64_t replicas = 1;  // S / T
};

// Every device keeps what it holds, where the extents are divisible by the source's tiles: the
// minor part of the axes that cut a dimension becomes its replicas. A mesh axis "x" that is cut in
// two becomes the axes "x_intermediate_split" and "x_intermediate_replica", or two sub-axes where
// the source already names sub-axes of x. A dimension may be sharded over several axes.
//
// Errors: as IntermediateTiles(); also NO_INTERMEDIATE_SHARDING for shardings that do not tile by
// dimension, and where the axes of a dimension cannot be cut at the required number of tiles (3 x 4
// into 6).
absl::StatusOr<IntermediateSharding> FindIntermediateSharding(const HloSharding& source,
                                                              const HloSharding& target);

}  // namespace remesh::planner
