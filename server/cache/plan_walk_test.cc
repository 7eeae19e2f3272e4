// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_walk.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace remesh::server {
namespace {

PlanCache::Place PlaceAt(int64_t created) {
  return {absl::FromUnixSeconds(created), absl::StrCat("plans/", created)};
}

// Reads one page, up to the plan made at `created`.
void ReadTo(int64_t created, PlanWalk& walk) {
  ASSERT_TRUE(walk.wants_page());
  walk.BeginPage();
  walk.EndPage(PlaceAt(created));
}

TEST(PlanWalkTest, WhatIsMissedAheadIsNotReadTwice) {
  PlanWalk walk;
  ReadTo(50, walk);
  EXPECT_TRUE(walk.IsToCome(PlaceAt(40)));
  EXPECT_FALSE(walk.IsToCome(PlaceAt(60)));  // read before
}

TEST(PlanWalkTest, WhatIsMissedWhileItsPageIsReadIsReadAgain) {
  PlanWalk walk;
  ReadTo(50, walk);
  walk.BeginPage();
  EXPECT_FALSE(walk.IsToCome(PlaceAt(40)));
  walk.Miss(PlaceAt(40));
  walk.EndPage({});
  EXPECT_TRUE(walk.missed());
}

TEST(PlanWalkTest, ASecondWalkEndsWithTheFurthestThatWasMissed) {
  PlanWalk walk;
  ReadTo(10, walk);
  walk.Miss(PlaceAt(70));
  walk.Miss(PlaceAt(60));
  walk.Miss(PlaceAt(80));
  walk.BeginPage();
  walk.EndPage({});
  EXPECT_FALSE(walk.wants_page());
  walk.Restart();
  EXPECT_EQ(walk.restarts(), 1);
  ReadTo(75, walk);
  EXPECT_TRUE(walk.IsToCome(PlaceAt(65)));
  EXPECT_FALSE(walk.IsToCome(PlaceAt(55)));
  walk.Miss(PlaceAt(55));
  ReadTo(60, walk);
  EXPECT_FALSE(walk.wants_page());
  walk.Restart();
  ReadTo(56, walk);
  ReadTo(54, walk);
  EXPECT_FALSE(walk.wants_page() || walk.missed());
}

TEST(PlanWalkTest, NamesToldAreNeverForgottenAndOthersSeldomTaken) {
  NamesTold told;
  EXPECT_FALSE(told.MayHave("plans/0"));
  for (int i = 0; i < 10'000; ++i) told.Add(absl::StrCat("plans/", i));
  int taken = 0;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(told.MayHave(absl::StrCat("plans/", i)));
    taken += told.MayHave(absl::StrCat("plans/other-", i));
  }
  EXPECT_LT(taken, 400);  // 200 are likely
}

}  // namespace
}  // namespace remesh::server
