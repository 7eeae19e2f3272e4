// SPDX-License-Identifier: Apache-2.0
// Which losses of hosts leave every element on another host.
#include "server/controller/states/replicas.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/controller/testing/placed_test_boxes.h"

namespace remesh::server {
namespace {

// a and b hold the first half, b and c the second, in other boxes.
std::shared_ptr<const PlacedState> Overlapping() {
  return PlaceBoxes(10, {{"a", 1, 0, 5}, {"b", 2, 0, 3}, {"b", 2, 3, 10}, {"c", 3, 5, 10}});
}

TEST(ReplicasTest, TheBoxesOfOtherHostsMustCoverEveryElement) {
  const auto placed = Overlapping();
  EXPECT_TRUE(CoveredWithout(*placed, {}));
  EXPECT_TRUE(CoveredWithout(*placed, {"a"}));
  EXPECT_TRUE(CoveredWithout(*placed, {"b"}));
  EXPECT_TRUE(CoveredWithout(*placed, {"a", "c"}));
  EXPECT_FALSE(CoveredWithout(*placed, {"a", "b"}));
  EXPECT_FALSE(CoveredWithout(*placed, {"a", "b", "c"}));
  EXPECT_TRUE(CoveredWithout(*placed, {"a", "stranger"}));
  const auto short_by_one = PlaceBoxes(10, {{"a", 1, 0, 10}, {"b", 2, 0, 9}});
  EXPECT_TRUE(CoveredWithout(*short_by_one, {"b"}));
  EXPECT_FALSE(CoveredWithout(*short_by_one, {"a"}));
}

TEST(ReplicasTest, WithoutALayoutNothingIsKnownToBeCovered) {
  EXPECT_FALSE(CoveredWithout(PlacedState(), {}));
}

// So many that the strand would take long.
TEST(ReplicasTest, IntricateBoxesAreLeftToThePlanner) {
  constexpr int64_t kBoxes = 1024, kHosts = 64;
  std::vector<TestBox> boxes = {{"whole", 0, 0, kBoxes * kHosts}};
  for (int64_t i = 0; i < kBoxes * kHosts; ++i) {
    boxes.push_back({absl::StrCat("h", i % kHosts), 1 + i % kHosts, i, i + 1});
  }
  const auto placed = PlaceBoxes(kBoxes * kHosts, boxes);
  EXPECT_TRUE(CoveredWithout(*placed, {"h1"})) << "the whole is on one host";
  EXPECT_FALSE(CoveredWithout(*placed, {"whole"})) << "too many boxes to look at here";
}

TEST(ReplicasTest, DevicesAreNamedInOrder) {
  const auto placed = PlaceBoxes(4, {{"a", 7, 0, 4}, {"b", 2, 0, 2}, {"c", 5, 2, 4}});
  EXPECT_EQ(DevicesOf(*placed, {"a", "b", "stranger"}), (std::vector<int64_t>{2, 7}));
}

TEST(ReplicasTest, AnAnswerIsComputedOncePerSetOfLostHosts) {
  Replicas replicas;
  const auto placed = Overlapping();
  EXPECT_TRUE(replicas.CoverWithout(placed, {"a", "c"}));
  EXPECT_TRUE(replicas.CoverWithout(placed, {"a", "c"}));
  EXPECT_TRUE(replicas.CoverWithout(placed, {"a"})) << "fewer are lost";
  EXPECT_EQ(replicas.computed(), 1);
  EXPECT_FALSE(replicas.CoverWithout(placed, {"a", "b"}));
  EXPECT_FALSE(replicas.CoverWithout(placed, {"a", "b", "c"})) << "more are lost";
  EXPECT_EQ(replicas.computed(), 2);
  EXPECT_TRUE(replicas.CoverWithout(placed, {"b"}));
  EXPECT_EQ(replicas.computed(), 3);
  EXPECT_FALSE(replicas.CoverWithout(PlaceBoxes(4, {{"b", 1, 0, 4}}), {"b"})) << "a later layout";
}

}  // namespace
}  // namespace remesh::server
