// SPDX-License-Identifier: Apache-2.0
#include "base/ticker.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"

namespace remesh {
namespace {

TEST(TickerTest, TicksUntilItIsStopped) {
  std::atomic<int> ticks = 0;
  absl::Notification third;
  Ticker ticker;
  ticker.Start(absl::Milliseconds(1), [&] {
    if (++ticks == 3) third.Notify();
  });
  third.WaitForNotification();
  ticker.Stop();
  const int stopped = ticks;
  absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(ticks, stopped);
}

TEST(TickerTest, AStopDoesNotWaitForTheInterval) {
  Ticker never;
  never.Stop();
  Ticker seldom;
  seldom.Start(absl::Hours(1), [] { ADD_FAILURE(); });
  seldom.Stop();
  seldom.Stop();
}

}  // namespace
}  // namespace remesh
