// SPDX-License-Identifier: Apache-2.0
#include "worker/files/files_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/synchronization/notification.h"

namespace remesh::worker {
namespace {

TEST(FilesQueueTest, TheWorkRunsThenItsDone) {
  Strand strand, files;
  FilesQueue queue(&strand, &files);
  absl::Notification done;
  bool ran = false;
  queue.Post([&](const std::atomic<bool>& cancelled) { ran = !cancelled; }, [&] { done.Notify(); });
  done.WaitForNotification();
  EXPECT_TRUE(ran);
}

TEST(FilesQueueTest, WhatHasNotBegunIsGivenUpAtOnce) {
  Strand strand, files;
  FilesQueue queue(&strand, &files);
  absl::Notification go, done;
  files.Post([&] { go.WaitForNotification(); });
  bool ran = false;
  auto job = queue.Post([&](const std::atomic<bool>&) { ran = true; }, [&] { done.Notify(); });
  job->Cancel();
  job->Cancel();
  done.WaitForNotification();
  go.Notify();
  files.Stop();
  EXPECT_FALSE(ran);
}

TEST(FilesQueueTest, WhatHasBegunIsToldAndDoneComesAfterIt) {
  Strand strand, files;
  FilesQueue queue(&strand, &files);
  absl::Notification begun, done;
  bool saw = false;
  auto job = queue.Post(
      [&](const std::atomic<bool>& cancelled) {
        begun.Notify();
        while (!cancelled) std::this_thread::yield();
        saw = true;
      },
      [&] {
        EXPECT_TRUE(saw);
        done.Notify();
      });
  begun.WaitForNotification();
  job->Cancel();
  done.WaitForNotification();
}

// Ends in `parts` parts, and says on which thread.
struct Ends {
  ~Ends() { *at = std::this_thread::get_id(); }
  std::thread::id* at = nullptr;
  int parts = 1;
};

bool EndSome(Ends& ends) { return --ends.parts == 0; }

TEST(FilesQueueTest, WhatItOwnsEndsOnFiles) {
  Strand strand, files;
  FilesQueue queue(&strand, &files);
  std::thread::id at, of_files;
  files.Post([&] { of_files = std::this_thread::get_id(); });
  auto owned = queue.Own<Ends>();
  owned->at = &at;
  auto late = queue.Own<Ends>();
  owned = nullptr;
  files.Stop();
  EXPECT_EQ(at, of_files);
  late->at = &at;
  late = nullptr;
  EXPECT_EQ(at, std::this_thread::get_id());
}

TEST(FilesQueueTest, WhatItOwnsEndsInPartsBetweenWhichOtherWorkRuns) {
  Strand strand, files;
  FilesQueue queue(&strand, &files);
  absl::Notification go, ran;
  files.Post([&] { go.WaitForNotification(); });
  std::thread::id at;
  auto owned = queue.Own<Ends>();
  owned->at = &at;
  owned->parts = 3;
  Ends* const ends = owned.get();
  owned = nullptr;
  int parts_left = 0;
  files.Post([&] {
    parts_left = ends->parts;
    ran.Notify();
  });
  go.Notify();
  ran.WaitForNotification();
  EXPECT_EQ(parts_left, 2);
  files.Stop();
  EXPECT_NE(at, std::thread::id());
}

TEST(FilesQueueTest, PortionsOfTwoJobsAlternate) {
  Strand strand, files;
  FilesQueue queue(&strand, &files);
  absl::Notification go, first, second;
  files.Post([&] { go.WaitForNotification(); });
  std::string order;
  const auto post = [&](char name, absl::Notification* done) {
    queue.PostPortions(
        [&order, name, left = 3](const std::atomic<bool>&) mutable {
          order += name;
          return --left == 0;
        },
        [done] { done->Notify(); });
  };
  post('a', &first);
  post('b', &second);
  go.Notify();
  first.WaitForNotification();
  second.WaitForNotification();
  EXPECT_EQ(order, "ababab");
}

TEST(FilesQueueTest, PortionsThatAreLeftAtTheEndRunAsCancelled) {
  Strand strand, files;
  FilesQueue queue(&strand, &files);
  absl::Notification begun, go, done;
  std::string order;
  queue.PostPortions(
      [&](const std::atomic<bool>& cancelled) {
        order += cancelled ? 'c' : 'p';
        if (order.size() > 1) return cancelled.load();
        begun.Notify();
        go.WaitForNotification();
        return false;
      },
      [&] { done.Notify(); });
  begun.WaitForNotification();
  std::thread stopping([&] { files.Stop(); });
  while (files.Post([] {})) std::this_thread::yield();
  go.Notify();
  done.WaitForNotification();
  stopping.join();
  EXPECT_EQ(order, "pc");
}

}  // namespace
}  // namespace remesh::worker
