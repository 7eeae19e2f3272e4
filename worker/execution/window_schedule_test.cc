// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/window_schedule.h"

#include <gtest/gtest.h>

namespace remesh::worker {
namespace {

TEST(WindowScheduleTest, StartsOnceTheSecondBeforeIsDone) {
  WindowSchedule schedule({1, 2, 1, 1});
  EXPECT_EQ(schedule.TakeStartable(), std::nullopt);
  schedule.Grant(4);
  EXPECT_EQ(schedule.TakeStartable(), 0);
  EXPECT_EQ(schedule.TakeStartable(), 1);
  EXPECT_EQ(schedule.TakeStartable(), std::nullopt);
  schedule.Done(1);
  schedule.Done(1);
  EXPECT_EQ(schedule.TakeFinished(), std::nullopt);  // in order: window 0 is not done
  EXPECT_EQ(schedule.TakeStartable(), std::nullopt);
  schedule.Done(0);
  EXPECT_EQ(schedule.TakeStartable(), 2);
  EXPECT_EQ(schedule.TakeStartable(), 3);
  EXPECT_EQ(schedule.TakeFinished(), 0);
  EXPECT_EQ(schedule.TakeFinished(), 1);
  EXPECT_EQ(schedule.TakeFinished(), std::nullopt);
}

TEST(WindowScheduleTest, WindowsWithoutWorkPassThrough) {
  WindowSchedule schedule({0, 0, 1, 0});
  schedule.Grant(99);
  for (int w = 0; w < 4; ++w) EXPECT_EQ(schedule.TakeStartable(), w);
  EXPECT_EQ(schedule.TakeFinished(), 0);
  EXPECT_EQ(schedule.TakeFinished(), 1);
  EXPECT_EQ(schedule.TakeFinished(), std::nullopt);
  EXPECT_FALSE(schedule.all_finished());
  schedule.Done(2);
  EXPECT_EQ(schedule.TakeFinished(), 2);
  EXPECT_EQ(schedule.TakeFinished(), 3);
  EXPECT_TRUE(schedule.all_finished());
}

TEST(WindowScheduleTest, GrantsNeverFall) {
  WindowSchedule schedule({0, 0, 0});
  schedule.Grant(2);
  schedule.Grant(1);
  EXPECT_EQ(schedule.TakeStartable(), 0);
  EXPECT_EQ(schedule.TakeStartable(), 1);
  EXPECT_EQ(schedule.TakeStartable(), std::nullopt);
}

}  // namespace
}  // namespace remesh::worker
