// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/to_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/sharding/dtensor.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/sdy_text.h"
#include "planner/values/coverage.h"

namespace remesh::planner {
namespace {

absl::StatusOr<Layout> Place(std::string_view text, const Shape& shape, int32_t device_count) {
  const auto sharding = ParseHloSharding(text);
  EXPECT_TRUE(sharding.ok()) << sharding.status();
  return ToLayout(*sharding, shape, device_count);
}

std::string Boxes(const absl::StatusOr<Layout>& layout, int32_t position) {
  if (!layout.ok()) return std::string(layout.status().message());
  std::string text;
  for (const Box& box : BoxesOf(*layout, position)) text += box.DebugString();
  return text;
}

std::string ErrorField(const absl::StatusOr<Layout>& layout) {
  return layout.ok() ? "" : GetErrorInfo(layout.status()).metadata["field"];
}

TEST(ToLayoutTest, UnevenTilesByPosition) {
  const auto layout = Place("{devices=[2,2]0,3,2,1}", {4, 5}, 4);
  EXPECT_EQ(Boxes(layout, 0), "[0:2,0:3]");
  EXPECT_EQ(Boxes(layout, 1), "[2:4,3:5]");
  EXPECT_EQ(Boxes(layout, 2), "[2:4,0:3]");
  EXPECT_EQ(Boxes(layout, 3), "[0:2,3:5]");
  EXPECT_EQ(Boxes(Place("{devices=[6]<=[6]}", {11}, 6), 5), "[10:11]");
  EXPECT_EQ(Boxes(Place("{devices=[4]<=[4]}", {5}, 4), 3), "");
}

TEST(ToLayoutTest, ReplicasShareATile) {
  const auto layout = Place("{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", {4}, 4);
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->tiles.size(), 2u);
  EXPECT_THAT(layout->PositionsOf(0), ::testing::ElementsAre(0, 2));
}

TEST(ToLayoutTest, MaximalIsOnePosition) {
  const auto layout = Place("{maximal device=2}", {4}, 3);
  EXPECT_EQ(Boxes(layout, 0), "");
  EXPECT_EQ(Boxes(layout, 2), "[0:4]");
  EXPECT_EQ(Boxes(Place("{maximal device=7}", {4}, 1), 0), "[0:4]");
  EXPECT_EQ(ErrorField(Place("{maximal device=3}", {4}, 3)), "devices");
}

TEST(ToLayoutTest, RankZeroAndZeroSizes) {
  EXPECT_EQ(Boxes(Place("{replicated}", {}, 2), 1), "[]");
  EXPECT_EQ(Boxes(Place("{devices=[2]<=[2] last_tile_dims={manual}}", {}, 2), 1), "[]");
  EXPECT_EQ(Boxes(Place("{devices=[2,2]<=[4]}", {0, 4}, 4), 0), "");
  EXPECT_EQ(ErrorField(Place("{devices=[1,2]<=[2]}", {}, 2)), "shape");
}

TEST(ToLayoutTest, SubgroupPeersAreNoReplicas) {
  const auto layout = Place("{devices=[2,2,2]<=[8] last_tile_dims={manual,replicated}}", {4}, 8);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->subgroup_kind, "manual(2)");
  ASSERT_EQ(layout->tiles.size(), 4u);
  EXPECT_THAT(layout->PositionsOf(0), ::testing::ElementsAre(0, 1));
  EXPECT_EQ(layout->tiles[0].subgroup, 0);
  EXPECT_THAT(layout->PositionsOf(2), ::testing::ElementsAre(2, 3));
  EXPECT_EQ(layout->tiles[2].subgroup, 1);
  EXPECT_EQ(Place("{unreduced}", {4}, 3)->subgroup_kind, "unreduced[sum](3)");
  EXPECT_EQ(Place("{manual}", {4}, 1)->subgroup_kind, "");
  EXPECT_EQ(
      Place("{devices=[1,2,2]<=[4] last_tile_dims={unreduced,manual}}", {4}, 4)->subgroup_kind,
      "manual(2),unreduced[sum](2)");
}

TEST(ToLayoutTest, WhatPlacesNothingIsRefused) {
  EXPECT_EQ(ErrorField(Place("{unknown}", {4}, 2)), "sharding");
  EXPECT_EQ(ErrorField(Place("{{replicated}}", {4}, 2)), "sharding");
  EXPECT_EQ(ErrorField(Place("{devices=[2,2]<=[4] last_tile_dims={maximal}}", {4}, 4)), "sharding");
  EXPECT_EQ(ErrorField(Place("{devices=[2,2]<=[4]}", {4}, 4)), "shape");
  EXPECT_EQ(ErrorField(Place("{devices=[2,2]<=[4]}", {4, 4}, 3)), "devices");
  EXPECT_EQ(ErrorField(Place("{devices=[2]0,7}", {4}, 2)), "devices");
  EXPECT_EQ(ErrorField(Place("{replicated}", {4}, 0)), "devices");
  EXPECT_EQ(ErrorField(Place("{mesh['a'=2], [{'a'}]}", {4, 4}, 2)), "shape");
  EXPECT_EQ(ErrorField(Place("{mesh['a'=2], [{'a'}]}", {4}, 3)), "devices");
}

// The same placement, written in each of the front ends.
TEST(ToLayoutTest, FrontEndsAgree) {
  const Shape shape = {8, 6};
  const auto hlo = Place("{devices=[4,1,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}", shape, 8);
  ASSERT_TRUE(hlo.ok());
  EXPECT_EQ(*hlo, *Place("{devices=[4,1,2]0,2,1,3,4,6,5,7 last_tile_dims={replicated}}", shape, 8));
  EXPECT_EQ(*hlo, *Place("{mesh['a'=2,'b'=2,'c'=2], [{'a', 'c'}, {}]}", shape, 8));
  EXPECT_EQ(*hlo, *Place("{mesh['a'=8], [{'a':(1)2, 'a':(4)2}, {}]}", shape, 8));
  const auto sdy =
      ParseSdySharding(R"(sdy.mesh @m = <["a"=2,"b"=4]> #sdy.sharding<@m, [{"a","b":(2)2}, {?}]>)");
  ASSERT_TRUE(sdy.ok()) << sdy.status();
  EXPECT_EQ(*hlo, *ToLayout(*sdy, shape, 8));
  using D = DTensorSharding;
  const D dtensor{{2, 2, 2}, {D::Shard{0}, D::Replicate{}, D::Shard{0}}};
  EXPECT_EQ(*hlo, *ToLayout(dtensor, shape, 8));
  std::vector<std::vector<Box>> boxes;
  for (int64_t i : {0, 1, 0, 1, 2, 3, 2, 3}) boxes.push_back({{{{2 * i, 2 * i + 2}, {0, 6}}}});
  EXPECT_EQ(*hlo, *MakeBoxLayout(shape, boxes));
}

TEST(ToLayoutTest, UnreducedAndPartialAgree) {
  using D = DTensorSharding;
  const auto hlo = Place("{devices=[2,3]<=[6] last_tile_dims={unreduced}}", {4}, 6);
  EXPECT_EQ(*hlo, *ToLayout(D{{2, 3}, {D::Shard{0}, D::Partial{"sum"}}}, {4}, 6));
  EXPECT_EQ(*hlo, *Place("{mesh['a'=2,'b'=3], [{'a'}], unreduced={'b'}}", {4}, 6));
}

TEST(ToLayoutTest, ManyDevices) {
  const auto layout = Place("{devices=[128,128]<=[128,128]T(1,0)}", {65536, 65536}, 16384);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->tiles.size(), 16384u);
  EXPECT_EQ(Boxes(layout, 1), "[512:1024,0:512]");
  EXPECT_TRUE(CheckCovers(*layout).ok());
}

}  // namespace
}  // namespace remesh::planner
