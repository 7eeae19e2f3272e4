// SPDX-License-Identifier: Apache-2.0
#include "client/files/box_copy.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/element_oracle.h"

namespace remesh::client {

using planner::Box;
using planner::ElementType;

namespace {

using testing::ArrayKey;
using testing::CheckBox;
using testing::FillBox;
using testing::OracleArray;

struct Case {
  ElementType type;
  planner::Shape shape;
  std::vector<Box> tiles;  // a partition of the array
};

std::vector<Case> Cases() {
  return {{ElementType::kBf16,
           {5, 7},
           {Box{{{0, 2}, {0, 7}}}, Box{{{2, 5}, {0, 3}}}, Box{{{2, 5}, {3, 7}}}}},
          {ElementType::kS4, {3, 5}, {Box{{{0, 3}, {0, 3}}}, Box{{{0, 3}, {3, 5}}}}},
          {ElementType::kU1, {11}, {Box{{{0, 3}}}, Box{{{3, 3}}}, Box{{{3, 11}}}}},
          {ElementType::kC128,
           {2, 2, 2},
           {Box{{{0, 2}, {0, 2}, {0, 1}}}, Box{{{0, 2}, {0, 2}, {1, 2}}}}},
          {ElementType::kF32, {}, {Box{}}}};
}

TEST(BoxCopy, TilesOfAnArrayHoldWhatTheOracleSaysAndMakeItAgain) {
  for (const Case& c : Cases()) {
    const OracleArray array{ArrayKey("w"), c.type, c.shape, 3};
    const Box whole = Box::Whole(c.shape);
    std::vector<std::byte> source(DenseBytes(c.type, planner::ElementCount(c.shape)));
    FillBox(array, whole, absl::MakeSpan(source));
    std::vector<std::byte> rebuilt(source.size(), std::byte{0xFF});
    for (const Box& tile : c.tiles) {
      std::vector<std::byte> shard(DenseBytes(c.type, tile.element_count()));
      ReadBox(c.type, c.shape, tile, source, absl::MakeSpan(shard));
      EXPECT_FALSE(CheckBox(array, tile, shard).has_value())
          << planner::Name(c.type) << tile.DebugString();
      WriteBox(c.type, c.shape, tile, shard, absl::MakeSpan(rebuilt));
    }
    EXPECT_FALSE(CheckBox(array, whole, rebuilt).has_value()) << planner::Name(c.type);
  }
}

TEST(BoxCopy, LeavesBitsOutsideTheBoxAlone) {
  std::vector<std::byte> array(2, std::byte{0xFF});
  const std::vector<std::byte> shard(1, std::byte{0});
  WriteBox(ElementType::kS4, {4}, Box{{{1, 3}}}, shard, absl::MakeSpan(array));
  EXPECT_EQ(array[0], std::byte{0x0F});
  EXPECT_EQ(array[1], std::byte{0xF0});
}

}  // namespace
}  // namespace remesh::client
