// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/dtensor.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace remesh::planner {
namespace {

using D = DTensorSharding;

std::string Boxes(const D& sharding, const Shape& shape, int32_t position) {
  int32_t count = 1;
  for (int64_t size : sharding.mesh_shape) count *= static_cast<int32_t>(size);
  const auto layout = ToLayout(sharding, shape, count);
  if (!layout.ok()) return std::string(layout.status().message());
  std::string text;
  for (const Box& box : BoxesOf(*layout, position)) text += box.DebugString();
  return text;
}

std::string ErrorField(const D& sharding, const Shape& shape, int32_t device_count) {
  const auto layout = ToLayout(sharding, shape, device_count);
  return layout.ok() ? "" : GetErrorInfo(layout.status()).metadata["field"];
}

TEST(DTensorTest, ChunksApplyToWhatIsLeft) {
  const D twice{{2, 2}, {D::Shard{0}, D::Shard{0}}};
  EXPECT_EQ(Boxes(twice, {5}, 0), "[0:2]");
  EXPECT_EQ(Boxes(twice, {5}, 1), "[2:3]");
  EXPECT_EQ(Boxes(twice, {5}, 3), "[4:5]");
  EXPECT_EQ(Boxes(D{{4}, {D::Shard{-1}}}, {2, 5}, 3), "");
}

TEST(DTensorTest, StridedShardsAreUnionsOfIntervals) {
  const D strided{{4}, {D::StridedShard{0, 2}}};
  EXPECT_EQ(Boxes(strided, {9}, 0), "[0:2][5:6]");
  EXPECT_EQ(Boxes(strided, {9}, 3), "[8:9]");
  const D fsdp_tp{{2, 2}, {D::StridedShard{0, 2}, D::Shard{0}}};
  EXPECT_EQ(Boxes(fsdp_tp, {8, 8}, 1), "[4:6,0:8]");
}

TEST(DTensorTest, PartialDevicesAreNoReplicas) {
  const auto layout = ToLayout(D{{2, 2}, {D::Partial{"avg"}, D::Partial{""}}}, {4}, 4);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->subgroup_kind, "unreduced[avg](2),unreduced[sum](2)");
  EXPECT_EQ(layout->tiles.size(), 4u);
  EXPECT_EQ(ToLayout(D{{1, 2}, {D::Partial{"avg"}, D::Replicate{}}}, {4}, 2)->subgroup_kind, "");
}

TEST(DTensorTest, NoMeshDimensionIsOneDevice) { EXPECT_EQ(Boxes(D{}, {4}, 0), "[0:4]"); }

TEST(DTensorTest, BadFieldsAreNamed) {
  EXPECT_EQ(ErrorField(D{{2}, {D::Shard{1}}}, {4}, 2), "placements[0].shard.dim");
  EXPECT_EQ(ErrorField(D{{2}, {D::StridedShard{0, 0}}}, {4}, 2),
            "placements[0].strided_shard.split_factor");
  EXPECT_EQ(ErrorField(D{{2}, {D::Partial{"mean"}}}, {4}, 2), "placements[0].partial.reduce_op");
  EXPECT_EQ(ErrorField(D{{2, 0}, {D::Shard{0}, D::Shard{0}}}, {4}, 0), "mesh_shape[1]");
  EXPECT_EQ(ErrorField(D{{INT64_MAX}, {D::Shard{0}}}, {4}, 2), "mesh_shape[0]");
  EXPECT_EQ(ErrorField(D{{2}, {}}, {4}, 2), "placements");
  EXPECT_EQ(ErrorField(D{{2}, {D::Shard{0}}}, {4}, 3), "devices");
  EXPECT_EQ(ErrorField(D{{2}, {D::Shard{0}}}, {}, 2), "placements[0].shard.dim");
}

TEST(DTensorTest, HugeSplitFactorsAreBounded) {
  EXPECT_EQ(ErrorField(D{{2}, {D::StridedShard{0, INT64_MAX}}}, {int64_t{1} << 50}, 2),
            "placements[0].strided_shard.split_factor");
  EXPECT_EQ(
      ErrorField(D{{2, 2}, {D::StridedShard{0, 1000}, D::StridedShard{1, 1000}}}, {4000, 4000}, 4),
      "placements");
  EXPECT_EQ(Boxes(D{{2}, {D::StridedShard{0, INT64_MAX}}}, {3}, 0), "[0:3]");
}

}  // namespace
}  // namespace remesh::planner
