// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/sharding/tile_assignment.h"

namespace remesh::planner {

struct MeshAxis {
  std::string name;
  int64_t size = 1;

  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// Device positions arranged along named axes, major to minor. A mesh without axes is empty, or
// maximal when `maximal` is set.
struct Mesh {
  std::vector<MeshAxis> axes;
  TileAssignment devices;          // dims() are the axis sizes; the default for a mesh without axes
  std::optional<int64_t> maximal;  // the one position of a maximal mesh

  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// A mesh of consecutive positions, or of positions in the order of `device_ids` if that is not
// empty. INVALID_ARGUMENT without a field: axis names empty or repeated, sizes < 1, too many
// devices, ids that are not a permutation of 0..n-1.
absl::StatusOr<Mesh> MakeMesh(std::vector<MeshAxis> axes, std::vector<int64_t> device_ids = {});
// A mesh whose positions are a transposed iota, as in TileAssignment.
absl::StatusOr<Mesh> MakeIotaMesh(std::vector<MeshAxis> axes,
                                  absl::Span<const int64_t> reshape_dims,
                                  absl::Span<const int64_t> transpose_perm);
// INVALID_ARGUMENT when the position is negative.
absl::StatusOr<Mesh> MakeMaximalMesh(int64_t position);

// An axis of a mesh, or with `sub` the middle factor of the axis seen as pre_size x size x rest.
struct AxisRef {
  struct Sub {
    int64_t pre_size = 1;
    int64_t size = 1;

    friend bool operator==(const Sub&, const Sub&) = default;
  };
  int64_t axis = 0;  // index in Mesh::axes
  std::optional<Sub> sub;

  friend bool operator==(const AxisRef&, const AxisRef&) = default;
};

// Number of devices along the axis or its part. REQUIRES: CheckAxisRef() passed.
int64_t SizeOf(const Mesh& mesh, const AxisRef& ref);

// INVALID_ARGUMENT unless the axis exists and its part, if any, has pre_size >= 1, size > 1,
// pre_size x size dividing the axis, and is not the whole axis.
absl::Status CheckAxisRef(const Mesh& mesh, const AxisRef& ref);

// The index of the axis called `name`, or nullopt.
std::optional<int64_t> FindAxis(const Mesh& mesh, std::string_view name);

}  // namespace remesh::planner
