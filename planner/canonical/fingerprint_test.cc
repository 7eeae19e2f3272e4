// SPDX-License-Identifier: Apache-2.0
#include "planner/canonical/fingerprint.h"

#include <gtest/gtest.h>

#include <set>

namespace remesh::planner {
namespace {

TEST(FingerprintTest, WhatIsHashedIsTold) {
  const auto digest = [](auto&&... values) {
    Hasher hasher;
    (hasher.AddText(values), ...);
    return hasher.Digest().Hex();
  };
  EXPECT_NE(digest("ab", "c"), digest("a", "bc"));
  EXPECT_NE(digest("", ""), digest(""));
  EXPECT_EQ(digest("x"), digest("x"));
  Hasher zero, minus;
  EXPECT_NE(zero.AddDouble(0.0).Digest(), minus.AddDouble(-0.0).Digest());
}

TEST(FingerprintTest, ADigestMayBeTakenOnTheWay) {
  Hasher one, other;
  for (int64_t i = 0; i < 2000; ++i) {
    one.Add(i);
    other.Add(i);
    if (i % 300 == 0) other.Digest();
  }
  EXPECT_EQ(one.Digest(), other.Digest());
  EXPECT_EQ(one.Digest().Hex().size(), 32u);
}

TEST(FingerprintTest, MixedDependsOnTheOrder) {
  std::set<Hash128> seen;
  for (uint64_t a = 0; a < 30; ++a) {
    for (uint64_t b = 0; b < 30; ++b) EXPECT_TRUE(seen.insert(Mixed(Mixed({}, a), b)).second);
  }
}

// The hash depends on how many devices hold a tile, not on which.
TEST(FingerprintTest, LayoutsAreHashedWithoutDevices) {
  const auto tiles = [](const std::vector<int64_t>& numbers) {
    return HashWithoutDevices(MakeSeparableLayout({8}, {TilePartition(8, 2)}, numbers));
  };
  EXPECT_EQ(tiles({0, 1}), tiles({1, 0}));
  EXPECT_NE(tiles({0, 1}), tiles({0, 1, 1}));
  EXPECT_NE(tiles({0, 1, 1}), tiles({0, 0, 1}));
}

}  // namespace
}  // namespace remesh::planner
