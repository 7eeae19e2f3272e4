// SPDX-License-Identifier: Apache-2.0
// A program of its own, whose wall clock the test sets.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/time/clock.h"
#include "base/task_queue.h"

namespace {

std::atomic<time_t> wall_step{0};  // seconds

}  // namespace

// In place of the C library's.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long failed = syscall(SYS_clock_gettime, clock, time);
  if (failed == 0 && clock == CLOCK_REALTIME) time->tv_sec += wall_step;
  return static_cast<int>(failed);
}

namespace remesh {
namespace {

// Regression: the server missed the deadlines of rounds, and members that were silent, until the
// wall clock was again where it had been.
TEST(WallClockStepTest, DelaysNoTask) {
  const absl::Time before = absl::Now();
  std::atomic<bool> ran{false};
  TaskQueue queue;
  queue.PostAfter(absl::Milliseconds(20), [&] { ran = true; });
  wall_step = -3600;
  ASSERT_LT(absl::Now(), before);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!ran && std::chrono::steady_clock::now() < give_up) {
    queue.Post([] {});  // as calls do: a thread that sleeps does so by the wall clock
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  wall_step = 0;
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace remesh
