// SPDX-License-Identifier: Apache-2.0
#include "worker/device/copy_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <semaphore>
#include <thread>

namespace remesh::worker {
namespace {

constexpr int64_t kBytes = int64_t{1} << 20;  // enough to start at once

class CopyPoolTest : public testing::Test {
 protected:
  void DrainAll(CopyPool& pool) {
    while (pool.pending() > 0) {
      finished_.acquire();
      pool.Drain();
    }
  }

  std::counting_semaphore<> finished_{0};
};

TEST_F(CopyPoolTest, WorksOnItsThreadsAndTellsOnTheOwningOne) {
  CopyPool pool(3, [this] { finished_.release(); });
  const auto owner = std::this_thread::get_id();
  std::atomic<int> worked = 0;
  int done = 0;
  for (int i = 0; i < 8; ++i) {
    pool.Run(
        kBytes, [&] { worked += std::this_thread::get_id() != owner ? 1 : 0; },
        [&](absl::Status status) {
          EXPECT_TRUE(status.ok());
          EXPECT_EQ(std::this_thread::get_id(), owner);
          ++done;
        });
  }
  DrainAll(pool);
  EXPECT_EQ(done, 8);
  EXPECT_EQ(worked, 8);
}

TEST_F(CopyPoolTest, CancelledWorkNeverRuns) {
  CopyPool pool(1, [this] { finished_.release(); });
  std::binary_semaphore begun(0), go(0);
  std::atomic<int> ran = 0;
  std::vector<absl::StatusCode> ends;
  auto note = [&](absl::Status status) { ends.push_back(status.code()); };
  pool.Run(
      kBytes,
      [&] {
        begun.release();
        go.acquire();
        ++ran;
      },
      note);
  pool.Run(
      kBytes, [&] { ++ran; }, note);
  begun.acquire();
  pool.CancelQueued();
  go.release();
  DrainAll(pool);
  EXPECT_EQ(ran, 1);
  EXPECT_THAT(ends,
              testing::UnorderedElementsAre(absl::StatusCode::kOk, absl::StatusCode::kCancelled));
}

TEST_F(CopyPoolTest, LittleWorkStartsWithTheNextDrain) {
  CopyPool pool(2, [this] { finished_.release(); });
  int done = 0;
  for (int i = 0; i < 3; ++i)
    pool.Run(
        1, [] {}, [&](absl::Status) { ++done; });
  EXPECT_FALSE(pool.Drain());
  DrainAll(pool);
  EXPECT_EQ(done, 3);
}

TEST_F(CopyPoolTest, MuchLittleWorkStartsAtOnce) {
  CopyPool pool(2, [this] { finished_.release(); });
  int done = 0;
  for (int i = 0; i < 64; ++i)
    pool.Run(
        kBytes / 64, [] {}, [&](absl::Status) { ++done; });
  finished_.acquire();
  finished_.release();
  DrainAll(pool);
  EXPECT_EQ(done, 64);
}

TEST_F(CopyPoolTest, DoneMayGiveNewWork) {
  CopyPool pool(2, [this] { finished_.release(); });
  int rounds = 0;
  std::function<void(absl::Status)> again = [&](absl::Status) {
    if (++rounds < 5)
      pool.Run(
          kBytes, [] {}, again);
  };
  pool.Run(
      kBytes, [] {}, again);
  DrainAll(pool);
  EXPECT_EQ(rounds, 5);
}

}  // namespace
}  // namespace remesh::worker
