// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/values/box.h"
#include "planner/values/layout.h"

namespace remesh::planner {

// A torch DTensor's sharding: a mesh, row-major over the device list, and one placement of the
// tensor for each of the mesh's dimensions.
//
// Placements apply from left to right, each to the local tensor that those before it left:
//   Shard(d)            torch.chunk along d into n, the size of the mesh dimension: chunks of
//                       ceil(len/n), the last ones short or empty.
//   StridedShard(d, f)  torch.chunk into f pieces, each into n chunks; coordinate i gets the i-th
//                       chunk of every piece.
//   Replicate, Partial  leave it whole; Partial devices hold partial results.
// So 5 elements over a 2x2 mesh by Shard(0), Shard(0) are 2, 1, 1, 1 (XLA tiles 2, 2, 1, 0), and
// strided shards may consist of several intervals.
struct DTensorSharding {
  struct Shard {
    int64_t dim = 0;  // negative: from the last dimension
    friend bool operator==(const Shard&, const Shard&) = default;
  };
  struct Replicate {
    friend bool operator==(const Replicate&, const Replicate&) = default;
  };
  struct StridedShard {
    int64_t dim = 0;  // negative: from the last dimension
    int64_t split_factor = 1;
    friend bool operator==(const StridedShard&, const StridedShard&) = default;
  };
  struct Partial {
    std::string reduce_op;  // sum, avg, product, max, min, band, bor or bxor; "" is sum
    friend bool operator==(const Partial&, const Partial&) = default;
  };
  using Placement = std::variant<Replicate, Shard, StridedShard, Partial>;

  std::vector<int64_t> mesh_shape;
  std::vector<Placement> placements;  // one for each mesh dimension

  friend bool operator==(const DTensorSharding&, const DTensorSharding&) = default;
};

// The boxes that each position holds of an array of `shape` (which passed ValidateShape()). Devices
// along Partial dimensions form subgroups of the kind "unreduced[op](n)", as in XLA's unreduced
// shardings.
//
// INVALID_ARGUMENT, with fields such as "mesh_shape[1]", "placements[0].shard.dim" or "devices":
// sizes < 1, a mesh whose size differs from that of the device list, dimensions out of range,
// unknown reductions, split factors < 1 or so large that a shard has more than kBoxesOfPositionMax
// pieces.
absl::StatusOr<Layout> ToLayout(const DTensorSharding& sharding, const Shape& shape,
                                int32_t device_count);

}  // namespace remesh::planner
