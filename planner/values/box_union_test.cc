// SPDX-License-Identifier: Apache-2.0
#include "planner/values/box_union.h"

#include <gtest/gtest.h>

#include <random>

namespace remesh::planner {
namespace {

// Splits `box` at random until nothing is left to split or `cuts` are made.
void SplitAtRandom(const Box& box, int cuts, std::mt19937_64& random, std::vector<Box>& out) {
  const int d = static_cast<int>(random() % box.rank());
  if (cuts == 0 || box.dims[d].size() < 2) {
    out.push_back(box);
    return;
  }
  Box lower = box;
  Box upper = box;
  lower.dims[d].hi = upper.dims[d].lo =
      box.dims[d].lo + 1 + static_cast<int64_t>(random() % (box.dims[d].size() - 1));
  SplitAtRandom(lower, cuts - 1, random, out);
  SplitAtRandom(upper, cuts - 1, random, out);
}

TEST(BoxUnionTest, FindsOverlap) {
  const std::vector<Box> boxes = {{{{0, 2}, {0, 2}}}, {{{2, 4}, {0, 2}}}, {{{1, 3}, {1, 2}}}};
  const auto overlap = FindOverlap(boxes);
  ASSERT_TRUE(overlap.has_value());
  EXPECT_EQ(overlap->second, 2u);
  EXPECT_FALSE(FindOverlap(absl::MakeConstSpan(boxes).subspan(0, 2)).has_value());
  EXPECT_TRUE(FindOverlap({Box{}, Box{}}).has_value());
}

TEST(BoxUnionTest, DecompositionDependsOnTheUnionAlone) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    // An L, cut up in two ways.
    const std::vector<Box> shape = {{{{0, 4}, {0, 9}, {0, 3}}}, {{{4, 8}, {2, 5}, {0, 3}}}};
    std::vector<std::vector<Box>> ways(2);
    for (auto& way : ways) {
      for (const Box& box : shape) SplitAtRandom(box, 3, random, way);
      std::shuffle(way.begin(), way.end(), random);
      EXPECT_FALSE(FindOverlap(way).has_value());
      way = SlabDecomposition(way);
    }
    EXPECT_EQ(ways[0], shape);
    EXPECT_EQ(ways[1], shape);
  }
}

TEST(BoxUnionTest, StaircaseStaysAsItWas) {
  std::vector<Box> stairs;
  for (int64_t i = 0; i < 200; ++i) stairs.push_back({{{i, i + 200}, {2 * i, 2 * i + 1}}});
  EXPECT_EQ(SlabDecomposition(stairs), stairs);
}

}  // namespace
}  // namespace remesh::planner
