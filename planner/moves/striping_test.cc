// SPDX-License-Identifier: Apache-2.0
#include "planner/moves/striping.h"

#include <gtest/gtest.h>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

// One host of two devices with a NIC each, and another host that takes no part.
class StripingTest : public ::testing::Test {
 protected:
  // Bits that each NIC of the first host carries: `bits` bits that device 0 holds, and those that
  // both hold.
  std::vector<int64_t> Dealt(Direction direction, int64_t of_first, int64_t of_both,
                             const Rational& t) {
    Striping striping(network_);
    const std::vector<int32_t> first = {0}, both = {0, 1};
    const int32_t masks[] = {striping.MaskOf(first), striping.MaskOf(both)};
    const int64_t bits[] = {of_first, of_both};
    for (int i : {0, 1}) striping.AddDemand(direction, masks[i], bits[i]);
    striping.Solve(t);
    std::vector<int64_t> carried(2, 0);
    for (int i : {0, 1}) {
      for (int64_t left = bits[i]; left > 0;) {
        const Striping::Taken taken = striping.Take(direction, masks[i], left, 1);
        carried[taken.nic] += taken.bits;
        left -= taken.bits;
      }
    }
    return carried;
  }
  const Network network_ = testing::MakeTestNetwork(2, 2, 2);
};

TEST_F(StripingTest, WhatBothMayCarryEvensOutTheRest) {
  for (Direction direction : {Direction::kOut, Direction::kIn}) {
    EXPECT_EQ(Dealt(direction, 60, 100, {0, 1}), (std::vector<int64_t>{80, 80}));
  }
}

// Both devices hold what both need, so each sends from its own NIC at once.
TEST_F(StripingTest, WhoHoldsItSendsItIfThatIsEven) {
  Striping striping(network_);
  const std::vector<int32_t> first = {0}, second = {1};
  const int32_t masks[] = {striping.MaskOf(first, second), striping.MaskOf(second, first)};
  for (const int32_t mask : masks) striping.AddDemand(Direction::kOut, mask, 100);
  striping.Solve({0, 1});
  for (int32_t i : {0, 1}) {
    const Striping::Taken taken = striping.Take(Direction::kOut, masks[i], 100, 1);
    EXPECT_EQ(taken.nic, i);
    EXPECT_EQ(taken.bits, 100);
  }
}

TEST_F(StripingTest, NothingIsStagedWhereTimeAllows) {
  EXPECT_EQ(Dealt(Direction::kOut, 100, 0, {100, 1}), (std::vector<int64_t>{100, 0}));
}

// Dealt in sequence, both would end a NIC's share in the middle.
TEST_F(StripingTest, StaggeredSharesEndAtDifferentPlaces) {
  const Network network = testing::MakeTestNetwork(2, 4, 4);
  Striping striping(network, Dealing::kStaggered);
  const std::vector<int32_t> left = {0, 1}, right = {2, 3};
  const int32_t masks[] = {striping.MaskOf(left), striping.MaskOf(right)};
  for (const int32_t mask : masks) striping.AddDemand(Direction::kIn, mask, 100);
  striping.Solve({0, 1});
  using Shares = std::vector<std::pair<int32_t, int64_t>>;
  const auto dealt = [&](int32_t mask) {
    Shares shares;
    for (int64_t rest = 100; rest > 0; rest -= shares.back().second) {
      const Striping::Taken taken = striping.Take(Direction::kIn, mask, rest, 1);
      shares.emplace_back(taken.nic, taken.bits);
    }
    return shares;
  };
  EXPECT_EQ(dealt(masks[0]), (Shares{{0, 50}, {1, 50}}));
  EXPECT_EQ(dealt(masks[1]), (Shares{{2, 25}, {3, 50}, {2, 25}}));
}

TEST_F(StripingTest, WhatIsTooMuchGoesToTheOtherNic) {
  EXPECT_EQ(Dealt(Direction::kIn, 100, 0, {70, 1}), (std::vector<int64_t>{70, 30}));
}

}  // namespace
}  // namespace remesh::planner
