// SPDX-License-Identifier: Apache-2.0
#include "planner/values/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/values/coverage.h"

namespace remesh::planner {
namespace {

using ::testing::ElementsAre;
using Numbers = std::vector<int64_t>;

TEST(TilePartitionTest, LastTilesAreShortOrEmpty) {
  const DimPartition eleven = TilePartition(11, 6);
  EXPECT_EQ(eleven.cuts, (std::vector<int64_t>{0, 2, 4, 6, 8, 10, 11}));
  EXPECT_EQ(eleven.part_of, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  const DimPartition five = TilePartition(5, 4);  // 2, 2, 1, 0
  EXPECT_EQ(five.cuts, (std::vector<int64_t>{0, 2, 4, 5}));
  EXPECT_EQ(five.parts, 4);
  EXPECT_EQ(TilePartition(0, 3).cuts, (std::vector<int64_t>{0}));
}

TEST(LayoutTest, ReplicasShareATileAndEmptyShardsHaveNone) {
  const Layout layout = MakeSeparableLayout({5}, {TilePartition(5, 4)}, Numbers{3, 1, 0, 1});
  ASSERT_EQ(layout.tiles.size(), 2u);
  EXPECT_THAT(layout.PositionsOf(0), ElementsAre(2));
  EXPECT_THAT(layout.PositionsOf(1), ElementsAre(1, 3));
  EXPECT_TRUE(BoxesOf(layout, 0).empty());
  EXPECT_EQ(BoxesOf(layout, 3)[0].DebugString(), "[2:4]");
}

TEST(LayoutTest, FrontEndDoesNotMatter) {
  const DimPartition strided{.parts = 2, .cuts = {0, 1, 2, 3, 4}, .part_of = {0, 1, 0, 1}};
  const Layout separable =
      MakeSeparableLayout({4, 2}, {strided, TilePartition(2, 1)}, Numbers{0, 1});
  const std::vector<std::vector<Box>> boxes = {
      {{{{2, 3}, {0, 2}}}, {{{0, 1}, {1, 2}}}, {{{0, 1}, {0, 1}}}},
      {{{{1, 2}, {0, 2}}}, {{{3, 4}, {0, 2}}}, {{{3, 3}, {0, 2}}}}};
  const auto explicit_boxes = MakeBoxLayout({4, 2}, boxes);
  ASSERT_TRUE(explicit_boxes.ok());
  EXPECT_EQ(*explicit_boxes, separable)
      << explicit_boxes->DebugString() << " / " << separable.DebugString();
  EXPECT_FALSE(*explicit_boxes ==
               MakeSeparableLayout({4, 2}, {strided, TilePartition(2, 1)}, Numbers{1, 0}));
}

TEST(LayoutTest, NeighbouringIntervalsOfAPartAreJoined) {
  const DimPartition loose{.parts = 1, .cuts = {0, 1, 4}, .part_of = {0, 0}};
  EXPECT_EQ(MakeSeparableLayout({4}, {loose}, Numbers{0}),
            MakeSeparableLayout({4}, {TilePartition(4, 1)}, Numbers{0}));
}

TEST(LayoutTest, SubgroupPeersAreNotReplicas) {
  const Layout layout =
      MakeSeparableLayout({4}, {TilePartition(4, 1)}, Numbers{0, 0}, {0, 1}, "manual(2)");
  EXPECT_EQ(layout.tiles.size(), 2u);
}

// Tiles stand in the order of their boxes, whatever the order of positions, of numbers and of
// parts.
TEST(LayoutTest, TilesAreOrderedByBoxes) {
  const std::vector<DimPartition> partitions = {TilePartition(4, 2), TilePartition(6, 3)};
  const Layout turned = MakeSeparableLayout({4, 6}, partitions, Numbers{5, 4, 3, 2, 1, 0, 5});
  EXPECT_THAT(turned.tile_of, ElementsAre(5, 4, 3, 2, 1, 0, 5));
  EXPECT_THAT(turned.PositionsOf(5), ElementsAre(0, 6));
  EXPECT_EQ(turned.tiles[4].boxes[0].DebugString(), "[2:4,2:4]");
  EXPECT_EQ(turned.tiles[4].number, 4);

  const DimPartition falling{.parts = 2, .cuts = {0, 2, 4}, .part_of = {1, 0}};
  const Layout fallen = MakeSeparableLayout({4}, {falling}, Numbers{0, 1});
  EXPECT_EQ(fallen.tiles[0].boxes[0].DebugString(), "[0:2]");
  EXPECT_EQ(fallen.tiles[0].number, 1);
  EXPECT_THAT(fallen.tile_of, ElementsAre(1, 0));
}

TEST(LayoutTest, FewOfManyTilesAreHeld) {
  const std::vector<DimPartition> partitions = {TilePartition(1 << 20, 1 << 20),
                                                TilePartition(1 << 20, 1 << 20)};
  const int64_t last = (int64_t{1} << 40) - 1;
  const Layout layout = MakeSeparableLayout({1 << 20, 1 << 20}, partitions, Numbers{last, 0, last});
  ASSERT_EQ(layout.tiles.size(), 2u);
  EXPECT_THAT(layout.tile_of, ElementsAre(1, 0, 1));
  EXPECT_EQ(BoxesOf(layout, 2)[0].DebugString(), "[1048575:1048576,1048575:1048576]");
}

TEST(LayoutTest, RankZeroAndZeroExtent) {
  const Layout scalar = MakeSeparableLayout({}, {}, Numbers{0, 0});
  ASSERT_EQ(scalar.tiles.size(), 1u);
  EXPECT_EQ(scalar.tiles[0].boxes.size(), 1u);
  EXPECT_TRUE(CheckCovers(scalar).ok());
  const Layout nothing =
      MakeSeparableLayout({0, 3}, {TilePartition(0, 2), TilePartition(3, 1)}, Numbers{0, 1});
  EXPECT_TRUE(nothing.tiles.empty());
  EXPECT_TRUE(CheckCovers(nothing).ok());
}

TEST(LayoutTest, BadBoxesAreNamed) {
  const auto field = [](const std::vector<std::vector<Box>>& boxes) {
    return GetErrorInfo(MakeBoxLayout({4}, boxes).status()).metadata["field"];
  };
  EXPECT_EQ(field({{}, {{{{0, 5}}}}}), "[1].boxes[0]");
  EXPECT_EQ(field({{{{{3, 2}}}}}), "[0].boxes[0]");
  EXPECT_EQ(field({{{{{-1, 2}}}}}), "[0].boxes[0]");
  EXPECT_EQ(field({{{{{0, 1}, {0, 1}}}}}), "[0].boxes[0]");
  EXPECT_EQ(field({{{{{0, 0}}}, {{{0, 3}}}, {{{2, 4}}}}}), "[0].boxes[2]");
}

TEST(CheckCoversTest, NamesAnUncoveredBox) {
  const auto whole = MakeBoxLayout(
      {4, 4}, std::vector<std::vector<Box>>{{{{{0, 2}, {0, 4}}}}, {{{{1, 4}, {0, 4}}}}});
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(CheckCovers(*whole).ok());
  EXPECT_EQ(GetErrorInfo(CheckCovers(*whole, {0})).metadata["value"], "[0:1,0:4]");
  EXPECT_EQ(GetErrorInfo(CheckCovers(*whole, {0, 1})).metadata["value"], "[0:4,0:4]");
}

TEST(CheckCoversTest, LostReplicasAreCoveredByLivingOnesOfTheirSubgroup) {
  const Layout replicated = MakeSeparableLayout({4}, {TilePartition(4, 1)}, Numbers{0, 0});
  EXPECT_TRUE(CheckCovers(replicated, {0}).ok());
  const Layout manual =
      MakeSeparableLayout({4}, {TilePartition(4, 1)}, Numbers{0, 0}, {0, 1}, "manual(2)");
  EXPECT_TRUE(CheckCovers(manual).ok());
  EXPECT_FALSE(CheckCovers(manual, {0}).ok());
}

TEST(CheckCoversTest, LargeGridOfBoxes) {
  std::vector<std::vector<Box>> boxes;
  for (int64_t i = 0; i < 128; ++i) {
    for (int64_t j = 0; j < 128; ++j) boxes.push_back({{{{i, i + 1}, {j, j + 1}}}});
  }
  const auto grid = MakeBoxLayout({128, 128}, boxes);
  ASSERT_TRUE(grid.ok());
  EXPECT_TRUE(CheckCovers(*grid).ok());
  EXPECT_EQ(GetErrorInfo(CheckCovers(*grid, {130})).metadata["value"], "[1:2,2:3]");
}

}  // namespace
}  // namespace remesh::planner
