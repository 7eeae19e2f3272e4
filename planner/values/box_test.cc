// SPDX-License-Identifier: Apache-2.0
#include "planner/values/box.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace remesh::planner {
namespace {

TEST(BoxTest, WholeAndCounts) {
  const Box box = Box::Whole({4, 5});
  EXPECT_EQ(box.DebugString(), "[0:4,0:5]");
  EXPECT_EQ(box.element_count(), 20);
  EXPECT_EQ(box.shape(), (Shape{4, 5}));
  EXPECT_EQ(Box::Whole({}).element_count(), 1);
  EXPECT_TRUE(Box::Whole({4, 0}).empty());
}

TEST(BoxTest, IntersectIsHalfOpen) {
  const Box a{{{0, 2}, {0, 5}}};
  const Box b{{{1, 4}, {4, 9}}};
  const Box touching{{{2, 4}, {0, 5}}};
  ASSERT_TRUE(Intersect(a, b).has_value());
  EXPECT_EQ(Intersect(a, b)->DebugString(), "[1:2,4:5]");
  EXPECT_FALSE(Intersect(a, touching).has_value());
  EXPECT_TRUE(Intersect(Box{}, Box{}).has_value());
}

TEST(BoxTest, RelativeToMovesTheOrigin) {
  const Box frame{{{2, 6}, {10, 20}}};
  const Box box{{{3, 4}, {15, 20}}};
  EXPECT_EQ(RelativeTo(box, frame).DebugString(), "[1:2,5:10]");
}

TEST(BoxTest, ValidateShapeBounds) {
  EXPECT_TRUE(ValidateShape({}, 8).ok());
  EXPECT_TRUE(ValidateShape({0, 1 << 20}, 8).ok());
  EXPECT_TRUE(ValidateShape({int64_t{1} << 58}, 8).ok());
  EXPECT_FALSE(ValidateShape({int64_t{1} << 60}, 8).ok());
  EXPECT_FALSE(ValidateShape({0, int64_t{1} << 60}, 8).ok());
  EXPECT_FALSE(ValidateShape({INT64_MAX, INT64_MAX}, 1).ok());
  EXPECT_EQ(GetErrorInfo(ValidateShape({3, -1}, 8)).metadata.at("field"), "shape[1]");
  EXPECT_FALSE(ValidateShape(std::vector<int64_t>(33, 1), 8).ok());
}

}  // namespace
}  // namespace remesh::planner
