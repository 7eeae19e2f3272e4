// SPDX-License-Identifier: Apache-2.0
#include "worker/store/files_queue.h"

#include <gtest/gtest.h>

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

TEST(FilesQueueTest, WhatItOwnsEndsOnFiles) {
  struct Ends {
    ~Ends() { *at = std::this_thread::get_id(); }
    std::thread::id* at = nullptr;
  };
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

}  // namespace
}  // namespace remesh::worker
