// SPDX-License-Identifier: Apache-2.0
#include "server/planning/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace remesh::server {
namespace {

TEST(ThreadPoolTest, ATaskQueuedAfterAHundredBackgroundTasksIsNextToRun) {
  ThreadPool pool(1, 1000);
  absl::Notification began, release, ran;
  std::atomic<int> background{0};
  ASSERT_TRUE(pool.PostBackground([&] {
    ++background;
    began.Notify();
    release.WaitForNotification();
  }));
  absl::Notification last;
  for (int i = 1; i < 100; ++i) {
    ASSERT_TRUE(pool.PostBackground([&, i] {
      EXPECT_EQ(++background, i + 1);  // one at a time, oldest first
      if (i == 99) last.Notify();
    }));
  }
  began.WaitForNotification();
  ASSERT_TRUE(pool.Post([&] {
    EXPECT_EQ(background, 1);
    ran.Notify();
  }));
  ran.WaitForNotification();  // while the first background task still runs
  release.Notify();
  last.WaitForNotification();
}

TEST(ThreadPoolTest, NoBackgroundTaskBeginsWhileATaskWaits) {
  ThreadPool pool(1, 1000);
  absl::Notification began, release, background;
  std::atomic<int> done{0};
  ASSERT_TRUE(pool.Post([&] {
    began.Notify();
    release.WaitForNotification();
    ++done;
  }));
  began.WaitForNotification();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool.Post([&] { ++done; }));
  ASSERT_TRUE(pool.PostBackground([&] {
    EXPECT_GE(done, 10);  // the last of them may still run
    background.Notify();
  }));
  release.Notify();
  background.WaitForNotification();
}

TEST(ThreadPoolTest, BackgroundTasksThatCannotWaitAreRefused) {
  ThreadPool pool(1, 2);
  absl::Notification began, release;
  ASSERT_TRUE(pool.PostBackground([&] {
    began.Notify();
    release.WaitForNotification();
  }));
  began.WaitForNotification();
  EXPECT_TRUE(pool.PostBackground([] {}));
  EXPECT_TRUE(pool.PostBackground([] {}));
  EXPECT_FALSE(pool.PostBackground([] { ADD_FAILURE(); }));
  release.Notify();
}

// Regression: a single request for plans made ahead had no room in its caller's share.
TEST(ThreadPoolTest, ACallersBackgroundTasksMayTakeHalfOfThePlaces) {
  ThreadPool pool({.threads = 1, .waiting_max = 8, .fair = true});
  absl::Notification begun, free;
  ASSERT_TRUE(pool.PostBackground([&] {
    begun.Notify();
    free.WaitForNotification();
  }));
  begun.WaitForNotification();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(pool.PostBackground("a", [] {})) << i;
  EXPECT_FALSE(pool.PostBackground("a", [] { ADD_FAILURE(); }));
  EXPECT_TRUE(pool.PostBackground("b", [] {}));
  free.Notify();
}

// Regression: in a process that runs at a low priority, threads that were to yield to the others
// went before them.
TEST(ThreadPoolTest, ItsThreadsYieldToTheProcessWhateverItsPriority) {
  constexpr int kNice = 5, kLowest = 19;
  const auto process = static_cast<id_t>(getpid());
  const int lower = std::min(getpriority(PRIO_PROCESS, process) + 3, kLowest);
  ASSERT_EQ(setpriority(PRIO_PROCESS, process, lower), 0);
  ThreadPool pool({.threads = 1, .waiting_max = 1, .nice = kNice});
  absl::Notification ran;
  ASSERT_TRUE(pool.Post([&] {
    const auto thread = static_cast<id_t>(gettid());
    EXPECT_EQ(getpriority(PRIO_PROCESS, thread), std::min(lower + kNice, kLowest));
    ran.Notify();
  }));
  ran.WaitForNotification();
}

TEST(ThreadPoolTest, StopDropsWhatWaits) {
  ThreadPool pool(1, 1000);
  absl::Notification began, release;
  ASSERT_TRUE(pool.PostBackground([&] {
    began.Notify();
    release.WaitForNotification();
  }));
  began.WaitForNotification();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(pool.PostBackground([] { ADD_FAILURE(); }));
  std::thread stopper([&] { pool.Stop(); });
  while (pool.Post([] {})) absl::SleepFor(absl::Milliseconds(1));  // until it stops
  release.Notify();
  stopper.join();
}

}  // namespace
}  // namespace remesh::server
