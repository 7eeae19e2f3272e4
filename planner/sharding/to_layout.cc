// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/to_layout.h"

#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/limits.h"
#include "planner/sharding/named_text.h"

namespace remesh::planner {
namespace {

std::vector<DimPartition> WholePartitions(const Shape& shape) {
  std::vector<DimPartition> partitions;
  for (int64_t extent : shape) partitions.push_back(TilePartition(extent, 1));
  return partitions;
}

// Every position holds the whole array, in a subgroup of its own when `kind` is not empty.
Layout WholeEverywhere(const Shape& shape, int32_t device_count, const std::string& kind) {
  const std::vector<int64_t> numbers(device_count, 0);
  if (kind.empty() || device_count == 1)
    return MakeSeparableLayout(shape, WholePartitions(shape), numbers);
  std::vector<int64_t> subgroups(device_count);
  std::iota(subgroups.begin(), subgroups.end(), 0);
  return MakeSeparableLayout(shape, WholePartitions(shape), numbers, subgroups,
                             absl::StrCat(kind, "(", device_count, ")"));
}

std::string KindOf(SubgroupType type, ReductionOp reduction) {
  if (type == SubgroupType::kManual) return "manual";
  return absl::StrCat("unreduced[", std::string(NameOf(reduction)), "]");
}

std::string Dimensions(size_t count) {
  return absl::StrCat(count, count == 1 ? " dimension" : " dimensions");
}

absl::Status CheckTiled(const Tiled& tiled, const Shape& shape, int32_t device_count) {
  if (tiled.data_rank() != static_cast<int>(shape.size())) {
    return InvalidField("shape", absl::StrCat("[", absl::StrJoin(shape, ","), "]"),
                        absl::StrCat("has ", Dimensions(shape.size()), ", but the sharding ",
                                     PrintTiles(tiled.tiles), " needs ", tiled.data_rank(),
                                     ": change the shape or the sharding"));
  }
  if (tiled.tiles.size() != device_count) {
    return InvalidField("devices", absl::StrCat(device_count, " devices"),
                        absl::StrCat("must be ", tiled.tiles.size(), " devices, as the sharding ",
                                     PrintTiles(tiled.tiles), " needs"));
  }
  for (SubgroupType type : tiled.subgroups) {
    if (type == SubgroupType::kMaximal) {
      return InvalidField("sharding", PrintTiles(tiled.tiles),
                          "has a maximal subgroup, which places nothing");
    }
  }
  return absl::OkStatus();
}

absl::Status PositionError(int64_t position, int32_t device_count) {
  return InvalidField("devices", absl::StrCat(device_count),
                      absl::StrCat("device ", position, " >= num_devices (", device_count, ")"));
}

absl::StatusOr<Layout> TiledLayout(const Tiled& tiled, const Shape& shape, int32_t device_count) {
  RETURN_IF_ERROR(CheckTiled(tiled, shape, device_count));
  const auto& dims = tiled.tiles.dims();
  const size_t rank = shape.size();
  std::vector<DimPartition> partitions;
  for (size_t d = 0; d < rank; ++d) partitions.push_back(TilePartition(shape[d], dims[d]));
  std::vector<std::string> kinds;
  int64_t replicas = 1;
  for (size_t g = 0; g < tiled.subgroups.size(); ++g) {
    const int64_t size = dims[rank + g];
    if (tiled.subgroups[g] == SubgroupType::kReplicated) {
      replicas = size;  // the last dimension, by CanonicalTiles()
    } else {
      kinds.push_back(absl::StrCat(KindOf(tiled.subgroups[g], tiled.reduction), "(", size, ")"));
    }
  }
  std::vector<int64_t> numbers(device_count);
  std::vector<int64_t> subgroups(kinds.empty() ? 0 : device_count);
  const std::vector<int64_t> positions = tiled.tiles.Positions();
  const int64_t peers = device_count / replicas;
  int64_t tile_count = 1;
  for (size_t d = 0; d < rank; ++d) tile_count *= dims[d];
  const int64_t subgroup_count = peers / tile_count;
  for (int64_t i = 0; i < device_count; ++i) {
    const int64_t position = positions[i];
    if (position >= device_count) return PositionError(position, device_count);
    const int64_t peer = i / replicas;
    if (!subgroups.empty()) subgroups[position] = peer % subgroup_count;
    numbers[position] = peer / subgroup_count;
  }
  return MakeSeparableLayout(shape, std::move(partitions), numbers, subgroups,
                             absl::StrJoin(kinds, ","));
}

absl::StatusOr<Layout> MaximalLayout(const Maximal& maximal, const Shape& shape,
                                     int32_t device_count) {
  if (device_count == 1) return WholeEverywhere(shape, 1, "");
  if (maximal.position >= device_count) return PositionError(maximal.position, device_count);
  std::vector<std::vector<Box>> boxes(device_count);
  boxes[maximal.position] = {Box::Whole(shape)};
  return MakeBoxLayout(shape, boxes);
}

struct Placer {
  const Shape& shape;
  int32_t device_count;

  using Result = absl::StatusOr<Layout>;
  Result operator()(const Replicated&) const { return WholeEverywhere(shape, device_count, ""); }
  Result operator()(const Maximal& maximal) const {
    return MaximalLayout(maximal, shape, device_count);
  }
  Result operator()(const Manual&) const { return WholeEverywhere(shape, device_count, "manual"); }
  Result operator()(const Unknown&) const {
    return InvalidField("sharding", "{unknown}", "places nothing");
  }
  Result operator()(const Unreduced& unreduced) const {
    return WholeEverywhere(shape, device_count,
                           KindOf(SubgroupType::kUnreduced, unreduced.reduction));
  }
  Result operator()(const Tiled& tiled) const { return TiledLayout(tiled, shape, device_count); }
  Result operator()(const NamedSharding& named) const {
    return ToLayout(named, shape, device_count);
  }
  Result operator()(const Tuple& tuple) const {
    return InvalidField("sharding", PrintHloSharding({tuple, std::nullopt, {}}),
                        "is a tuple, not the sharding of one array");
  }
};

absl::Status CheckDeviceCount(int32_t device_count) {
  if (device_count >= 1 && device_count <= kPositionsMax) return absl::OkStatus();
  return InvalidField("devices", absl::StrCat(device_count),
                      absl::StrCat("must have between 1 and ", kPositionsMax, " devices"));
}

}  // namespace

absl::StatusOr<Layout> ToLayout(const HloSharding& sharding, const Shape& shape,
                                int32_t device_count) {
  RETURN_IF_ERROR(CheckDeviceCount(device_count));
  return std::visit(Placer{shape, device_count}, sharding.form);
}

absl::StatusOr<Layout> ToLayout(const NamedSharding& sharding, const Shape& shape,
                                int32_t device_count) {
  RETURN_IF_ERROR(CheckDeviceCount(device_count));
  if (!sharding.mesh.maximal && sharding.mesh.devices.size() != device_count) {
    return InvalidField(
        "devices", absl::StrCat(device_count, " devices"),
        absl::StrCat("must be ", sharding.mesh.devices.size(), " devices, as the mesh has"));
  }
  if (!sharding.dims.empty() && sharding.dims.size() != shape.size()) {
    const bool fewer = sharding.dims.size() < shape.size();
    return InvalidField(
        "shape", absl::StrCat("[", absl::StrJoin(shape, ","), "]"),
        absl::StrCat(
            "has ", Dimensions(shape.size()), ", but the sharding names ", sharding.dims.size(),
            fewer ? ": add {} for each that is not cut" : ": change the shape or the sharding"));
  }
  NamedSharding ranked = sharding;
  ranked.dims.resize(shape.size());
  return std::visit(Placer{shape, device_count}, ToTiles(ranked));
}

}  // namespace remesh::planner
