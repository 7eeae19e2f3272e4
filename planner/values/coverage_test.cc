// SPDX-License-Identifier: Apache-2.0
// CheckCovers() compared with a check of every element.
#include "planner/values/coverage.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"
#include "planner/values/layout.h"

namespace remesh::planner {
namespace {

constexpr int64_t kRows = 6, kColumns = 5;

Box RandomBox(std::mt19937_64& random) {
  const auto cut = [&](int64_t extent) {
    const int64_t a = static_cast<int64_t>(random() % (extent + 1));
    const int64_t b = static_cast<int64_t>(random() % (extent + 1));
    return Interval{std::min(a, b), std::max(a, b)};
  };
  return Box{.dims = {cut(kRows), cut(kColumns)}};
}

bool Disjoint(const std::vector<Box>& boxes, const Box& box) {
  for (const Box& other : boxes) {
    const auto both = Intersect(other, box);
    if (both && !both->empty()) return false;
  }
  return true;
}

std::set<int64_t> ElementsOf(const Box& box) {
  std::set<int64_t> elements;
  for (int64_t r = box.dims[0].lo; r < box.dims[0].hi; ++r) {
    for (int64_t c = box.dims[1].lo; c < box.dims[1].hi; ++c) elements.insert(r * kColumns + c);
  }
  return elements;
}

TEST(CoverageTest, LivingBoxesOfAnyKindCoverExactlyWhenEveryElementIsHeld) {
  std::mt19937_64 random(4);
  int covered = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::vector<Box>> boxes(4);
    for (std::vector<Box>& of_position : boxes) {
      for (int i = 0; i < 3; ++i) {
        const Box box = RandomBox(random);
        if (Disjoint(of_position, box)) of_position.push_back(box);
      }
    }
    // In some rounds one position holds everything that the others leave uncovered.
    if (round % 3 == 0) boxes[3] = {Box::Whole({kRows, kColumns})};
    const auto layout = MakeBoxLayout({kRows, kColumns}, boxes);
    ASSERT_TRUE(layout.ok()) << layout.status();
    std::vector<int32_t> lost;
    if (random() % 2 == 0) lost.push_back(static_cast<int32_t>(random() % 4));
    std::set<int64_t> held;
    for (int32_t p = 0; p < 4; ++p) {
      if (!lost.empty() && lost[0] == p) continue;
      for (const Box& box : boxes[p]) held.merge(ElementsOf(box));
    }
    const absl::Status status = CheckCovers(*layout, lost);
    EXPECT_EQ(status.ok(), held.size() == kRows * kColumns) << status;
    covered += status.ok();
  }
  EXPECT_GT(covered, 100);
  EXPECT_LT(covered, 2900);
}

TEST(CoverageTest, ATileIsCoveredAsLongAsOneOfItsReplicasLives) {
  const std::vector<int64_t> numbers = {0, 1, 0, 1};
  const Layout layout = MakeSeparableLayout({10}, {TilePartition(10, 2)}, numbers);
  EXPECT_TRUE(CheckCovers(layout, {0, 3}).ok());
  const absl::Status status = CheckCovers(layout, {1, 3});
  EXPECT_EQ(GetErrorInfo(status).metadata["value"], "[5:10]");
}

}  // namespace
}  // namespace remesh::planner
