// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/rounds.h"

#include <gtest/gtest.h>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::MakeTestNetwork;

// Every device of one host to every device of the other.
std::vector<PairWork> AllToAll(int32_t devices) {
  std::vector<PairWork> pairs;
  for (int32_t i = 0; i < devices; ++i) {
    for (int32_t j = 0; j < devices; ++j) {
      pairs.push_back({i, devices + j, 100, 0, 0});
      pairs.push_back({devices + j, i, 100, 0, 0});
    }
  }
  return pairs;
}

TEST(RoundsTest, HeavyPairsAreCountedByDeviceAndDirection) {
  const HeavyPairs heavy = CountHeavyPairs(AllToAll(8), MakeTestNetwork(2, 8, 8));
  EXPECT_EQ(heavy.count, 2 * 8 * 8);
  EXPECT_EQ(heavy.most_of_device, 8);
}

// A window takes as many sends of a device and as many receives, whatever its neighbours do.
TEST(RoundsTest, OnlyADevicesOwnMessagesFillItsRound) {
  const Network network = MakeTestNetwork(2, 4, 4);
  const Links links(network);
  RoundPacker packer(links, 1000, 2);
  EXPECT_EQ(packer.Place(0, 4, {1, 1, 1}, 1), 0);
  EXPECT_EQ(packer.Place(0, 5, {1, 1, 1}, 1), 0);
  EXPECT_EQ(packer.Place(1, 4, {1, 1, 1}, 1), 0);
  EXPECT_EQ(packer.Place(6, 0, {1, 1, 1}, 1), 0);
  EXPECT_EQ(packer.Place(7, 0, {1, 1, 1}, 1), 0);
  EXPECT_EQ(packer.Place(0, 6, {1, 1, 1}, 1), 1);  // its third send
  EXPECT_EQ(packer.Place(2, 4, {1, 1, 1}, 1), 1);  // the third that 4 receives
}

TEST(RoundsTest, EqualMessagesLoadAllRoundsAlike) {
  const Network network = MakeTestNetwork(2, 4, 4);
  const Links links(network);
  RoundPacker packer(links, 1000, 8);
  std::vector<std::vector<int>> sends(8, std::vector<int>(4, 0));
  for (const PairWork& pair : AllToAll(4)) {
    ++sends[pair.from][packer.Place(pair.from, pair.to, {pair.bits, pair.bits, pair.bits}, 4)];
  }
  EXPECT_EQ(packer.rounds(), 4);
  for (const auto& of_device : sends) EXPECT_EQ(of_device, (std::vector<int>{1, 1, 1, 1}));
}

// Regression: rounds were made without a look, so a plan took gigabytes and minutes for no caller.
TEST(RoundsTest, NoRoundIsMadeOnceTheBudgetIsSpent) {
  const Network network = MakeTestNetwork(2);
  const Links links(network);
  int looks = 0;
  Budget budget([&] { return ++looks <= 3 ? absl::OkStatus() : absl::CancelledError("gone"); });
  RoundPacker packer(links, 100, 8, budget);
  for (int i = 0; i < 10'000; ++i) packer.Place(0, 1, {70, 70, 70}, 1);
  EXPECT_EQ(looks, 4);
  EXPECT_LT(packer.rounds(), 300);
}

TEST(RoundsTest, WhatDoesNotFitGetsARoundOfItsOwn) {
  const Network network = MakeTestNetwork(2);
  const Links links(network);
  RoundPacker packer(links, 100, 8);
  EXPECT_EQ(packer.Place(0, 1, {70, 70, 70}, 1), 0);
  EXPECT_EQ(packer.Place(0, 1, {70, 70, 70}, 1), 1);
}

}  // namespace
}  // namespace remesh::planner
