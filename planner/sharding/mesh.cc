// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/mesh.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"

namespace remesh::planner {
namespace {

absl::Status CheckNames(const std::vector<MeshAxis>& axes) {
  std::set<std::string_view> names;
  for (const MeshAxis& axis : axes) {
    if (axis.name.empty()) return absl::InvalidArgumentError("mesh axis name must not be empty");
    if (!names.insert(axis.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("mesh axis \"", axis.name, "\" is repeated"));
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> SizesOf(const std::vector<MeshAxis>& axes) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : axes) sizes.push_back(axis.size);
  return sizes;
}

int64_t SaturatedProduct(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size < 1 || size > kPositionsMax || product > kPositionsMax) return kPositionsMax + 1;
    product *= size;
  }
  return product;
}

}  // namespace

absl::StatusOr<Mesh> MakeMesh(std::vector<MeshAxis> axes, std::vector<int64_t> device_ids) {
  const std::vector<int64_t> sizes = SizesOf(axes);
  if (device_ids.empty()) {
    return MakeIotaMesh(std::move(axes), {SaturatedProduct(sizes)}, {0});
  }
  RETURN_IF_ERROR(CheckNames(axes));
  const auto largest = *std::max_element(device_ids.begin(), device_ids.end());
  const auto count = static_cast<int64_t>(device_ids.size());
  ASSIGN_OR_RETURN(TileAssignment devices, TileAssignment::FromList(sizes, std::move(device_ids)));
  if (largest >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh device id ", largest, " must be < ", count));
  }
  ASSIGN_OR_RETURN(const TileAssignment plain, TileAssignment::FromIota(sizes, {count}, {0}));
  if (devices == plain) devices = plain;
  return Mesh{std::move(axes), std::move(devices), std::nullopt};
}

absl::StatusOr<Mesh> MakeIotaMesh(std::vector<MeshAxis> axes,
                                  absl::Span<const int64_t> reshape_dims,
                                  absl::Span<const int64_t> transpose_perm) {
  RETURN_IF_ERROR(CheckNames(axes));
  for (const MeshAxis& axis : axes) {
    if (axis.size >= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("mesh axis \"", axis.name, "\" size ", axis.size, " must be >= 1"));
  }
  ASSIGN_OR_RETURN(TileAssignment devices,
                   TileAssignment::FromIota(SizesOf(axes), reshape_dims, transpose_perm));
  return Mesh{std::move(axes), std::move(devices), std::nullopt};
}

absl::StatusOr<Mesh> MakeMaximalMesh(int64_t position) {
  if (position < 0)
    return absl::InvalidArgumentError(absl::StrCat("device ", position, " is negative"));
  return Mesh{{}, {}, position};
}

int64_t SizeOf(const Mesh& mesh, const AxisRef& ref) {
  return ref.sub ? ref.sub->size : mesh.axes[ref.axis].size;
}

absl::Status CheckAxisRef(const Mesh& mesh, const AxisRef& ref) {
  if (ref.axis < 0 || ref.axis >= static_cast<int64_t>(mesh.axes.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis index ", ref.axis, " is out of range [0, ", mesh.axes.size(), ")"));
  }
  if (!ref.sub) return absl::OkStatus();
  const MeshAxis& axis = mesh.axes[ref.axis];
  const auto [pre_size, size] = *ref.sub;
  const std::string shown = absl::StrCat("sub-axis \"", axis.name, "\":(", pre_size, ")", size);
  if (pre_size < 1)
    return absl::InvalidArgumentError(absl::StrCat(shown, " must have a pre-size >= 1"));
  if (size <= 1) return absl::InvalidArgumentError(absl::StrCat(shown, " must have a size > 1"));
  if (size == axis.size)
    return absl::InvalidArgumentError(absl::StrCat(shown, " is the whole axis; name it so"));
  // Once both are at most the axis size, their product cannot overflow.
  if (pre_size > axis.size || size > axis.size || axis.size % (pre_size * size) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(shown, " must divide the axis size ", axis.size));
  }
  return absl::OkStatus();
}

std::optional<int64_t> FindAxis(const Mesh& mesh, std::string_view name) {
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (mesh.axes[i].name == name) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

}  // namespace remesh::planner
