// SPDX-License-Identifier: Apache-2.0
//
// The limits of docs/operations.md ("Limits of a request") that belong to layouts and shapes, each
// just below and above. Those of a whole request are in request_test.cc.
#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/values/layout.h"

namespace remesh::planner {
namespace {

TEST(LimitsTest, ArraysHaveAtMost32Dimensions) {
  EXPECT_TRUE(ValidateShape(std::vector<int64_t>(32, 1), 8).ok());
  const absl::Status refused = ValidateShape(std::vector<int64_t>(33, 1), 8);
  EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "shape") << refused;
}

TEST(LimitsTest, ArraysHoldAtMost2To62Bits) {
  EXPECT_TRUE(ValidateShape({int64_t{1} << 59}, 8).ok());
  const absl::Status refused = ValidateShape({(int64_t{1} << 59) + 1}, 8);
  EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "shape") << refused;
}

// Boxes of one element, every second one, from element `first` on.
std::vector<Box> Comb(int64_t first, int64_t teeth) {
  std::vector<Box> boxes;
  for (int64_t i = 0; i < teeth; ++i) boxes.push_back(Box{{{first + 2 * i, first + 2 * i + 1}}});
  return boxes;
}

TEST(LimitsTest, ADeviceHoldsAtMost4096Boxes) {
  const Shape shape = {3 * kBoxesOfPositionMax};
  const std::vector<std::vector<Box>> most = {Comb(0, kBoxesOfPositionMax)};
  EXPECT_TRUE(MakeBoxLayout(shape, most).ok());
  const std::vector<std::vector<Box>> more = {Comb(0, kBoxesOfPositionMax + 1)};
  const absl::Status refused = MakeBoxLayout(shape, more).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
}

TEST(LimitsTest, ALayoutHasAtMost2To20Boxes) {
  std::vector<std::vector<Box>> boxes(1 << 20, Comb(0, 1));
  const Shape shape = {1};
  EXPECT_TRUE(MakeBoxLayout(shape, boxes).ok());
  boxes.push_back(Comb(0, 1));
  const absl::Status refused = MakeBoxLayout(shape, boxes).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
}

}  // namespace
}  // namespace remesh::planner
