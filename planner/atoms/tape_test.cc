// SPDX-License-Identifier: Apache-2.0
#include "planner/atoms/tape.h"

#include <gtest/gtest.h>

#include <random>

#include "planner/values/box_union.h"

namespace remesh::planner {
namespace {

TEST(TapeTest, ARangeOfABoxIsFewBoxes) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    Box box;
    const int rank = static_cast<int>(random() % 5);
    for (int d = 0; d < rank; ++d) {
      const int64_t lo = static_cast<int64_t>(random() % 5);
      box.dims.push_back({lo, lo + 1 + static_cast<int64_t>(random() % 4)});
    }
    const int64_t count = box.element_count();
    const int64_t begin = static_cast<int64_t>(random() % (count + 1));
    const int64_t end = begin + static_cast<int64_t>(random() % (count - begin + 1));
    std::vector<Box> parts;
    ForEachBoxOfRange(box, begin, end, [&](const Box& part) { parts.push_back(part); });
    int64_t elements = 0;
    for (const Box& part : parts) {
      EXPECT_TRUE(box.Contains(part));
      elements += part.element_count();
    }
    EXPECT_EQ(elements, end - begin);
    EXPECT_FALSE(FindOverlap(parts).has_value());
    EXPECT_LE(parts.size(), static_cast<size_t>(std::max(1, 2 * rank - 1)));
  }
}

// Two arrays of 4 x 6 bytes, cut into the atoms [0:4,0:2] and [0:4,2:6].
AtomGeometry TwoArrays() {
  AtomGeometry geometry;
  geometry.classes = {{.arrays = {3, 5},
                       .element_bits = 8,
                       .first_atom = 10,
                       .atom_count = 2,
                       .cuts = {{0, 4}, {0, 2, 6}}}};
  return geometry;
}

std::string BoxesOf(const AtomGeometry& geometry, int64_t begin, int64_t end,
                    int64_t slack_bits = 0) {
  const std::vector<int32_t> atoms = {10, 11};
  std::string text;
  geometry.ForEachBox(
      geometry.RunsOf(atoms), begin, end, slack_bits,
      [&](int32_t array, const Box& box) { text += std::to_string(array) + box.DebugString(); });
  return text;
}

TEST(TapeTest, ATapeRunsArrayByArray) {
  const AtomGeometry geometry = TwoArrays();
  EXPECT_EQ(BoxesOf(geometry, 0, 2 * 24 * 8), "3[0:4,0:2]3[0:4,2:6]5[0:4,0:2]5[0:4,2:6]");
  EXPECT_EQ(BoxesOf(geometry, 7 * 8, 13 * 8), "3[3:4,1:2]3[0:1,2:6]3[1:2,2:3]");
  EXPECT_EQ(BoxesOf(geometry, 24 * 8, 24 * 8 + 7), "");
}

TEST(TapeTest, SlackMovesCutsBetweenRows) {
  const AtomGeometry geometry = TwoArrays();
  constexpr int64_t kSlack = 2 * 8;
  EXPECT_EQ(BoxesOf(geometry, 0, 13 * 8, kSlack), "3[0:4,0:2]3[0:1,2:6]");
  EXPECT_EQ(BoxesOf(geometry, 13 * 8, 24 * 8, kSlack), "3[1:4,2:6]");
}

}  // namespace
}  // namespace remesh::planner
