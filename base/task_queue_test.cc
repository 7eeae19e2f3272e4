// SPDX-License-Identifier: Apache-2.0
#include "base/task_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace remesh {
namespace {

TEST(TaskQueueTest, OneThreadRunsTasksInTheirOrder) {
  std::vector<int> ran;
  {
    TaskQueue queue;
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(queue.Post([&ran, i] { ran.push_back(i); }));
  }
  ASSERT_EQ(ran.size(), 100u) << "what was posted runs before the end";
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[i], i);
}

TEST(TaskQueueTest, ThreadsRunTasksTogether) {
  TaskQueue queue({.threads = 2});
  absl::Notification first, second;
  queue.Post([&] {
    first.Notify();
    second.WaitForNotification();
  });
  queue.Post([&] {
    first.WaitForNotification();
    second.Notify();
  });
  queue.Flush();
}

TEST(TaskQueueTest, ATaskMayPostAndFlushWaitsForThat) {
  std::atomic<bool> ran{false};
  TaskQueue queue;
  queue.Post([&] { queue.Post([&] { ran = true; }); });
  queue.Flush();
  EXPECT_TRUE(ran);
}

TEST(TaskQueueTest, WhatWaitsIsCounted) {
  TaskQueue queue;
  absl::Notification begun, release;
  queue.Post([&] {
    begun.Notify();
    release.WaitForNotification();
  });
  begun.WaitForNotification();
  EXPECT_EQ(queue.waiting(), 0u);
  queue.Post([] {});
  queue.PostAfter(absl::Hours(1), [] {});
  EXPECT_EQ(queue.waiting(), 1u);
  release.Notify();
}

TEST(TaskQueueTest, StopDropsWhatWaitsWhenTold) {
  TaskQueue queue;
  absl::Notification begun, release;
  queue.Post([&] {
    begun.Notify();
    release.WaitForNotification();
  });
  begun.WaitForNotification();
  const auto held = std::make_shared<int>(0);
  queue.Post([held] { ADD_FAILURE(); });
  queue.PostAfter(absl::Hours(1), [held] { ADD_FAILURE(); });
  std::thread stopper([&] { queue.Stop(TaskQueue::Rest::kDrop); });
  while (queue.Post([] {})) std::this_thread::yield();
  release.Notify();
  stopper.join();
  EXPECT_EQ(held.use_count(), 1) << "what was dropped is gone";
}

TEST(TaskQueueTest, TasksOfLaterRunInTheOrderOfTheirTimes) {
  std::vector<int> ran;
  absl::Notification done;
  TaskQueue queue;
  queue.PostAfter(absl::Milliseconds(20), [&] {
    ran.push_back(2);
    done.Notify();
  });
  queue.PostAfter(absl::Milliseconds(10), [&] { ran.push_back(1); });
  queue.PostAfter(absl::Hours(1), [&] { ran.push_back(3); });
  done.WaitForNotification();
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST(TaskQueueTest, EachThreadBeginsWithOnStart) {
  std::atomic<int> started{0};
  TaskQueue queue({.threads = 3, .on_start = [&] { ++started; }});
  queue.Stop();
  EXPECT_EQ(started, 3);
}

}  // namespace
}  // namespace remesh
