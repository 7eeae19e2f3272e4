// SPDX-License-Identifier: Apache-2.0
#include "service/process/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace remesh::service {
namespace {

TEST(SignalsTest, WaitsForASignalOfThisProcess) {
  ShutdownSignal signal;
  std::thread killer([] { kill(getpid(), SIGTERM); });
  EXPECT_EQ(signal.Wait(), SIGTERM);
  killer.join();
}

TEST(SignalsTest, HangUpsAndBrokenPipesEndNothing) {
  ShutdownSignal signal;
  testing::internal::CaptureStderr();
  kill(getpid(), SIGHUP);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  close(pipe_ends[0]);
  EXPECT_EQ(write(pipe_ends[1], "x", 1), -1) << "the process still runs";
  close(pipe_ends[1]);
  std::thread other([&] { kill(getpid(), SIGTERM); });
  other.join();
  EXPECT_EQ(signal.Wait(), SIGTERM);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("level=warning msg=\"SIGHUP is ignored"),
            std::string::npos);
}

TEST(SignalsTest, AHangUpDoesWhatItIsTold) {
  ShutdownSignal signal;
  int count = 0;
  signal.OnHangUp([&] {
    ++count;
    signal.Trigger();
  });
  kill(getpid(), SIGHUP);
  EXPECT_EQ(signal.Wait(), 0);
  EXPECT_EQ(count, 1);
}

TEST(SignalsTest, CanBeTriggered) {
  ShutdownSignal signal;
  std::thread other([&] { signal.Trigger(); });
  EXPECT_EQ(signal.Wait(), 0);
  other.join();
}

}  // namespace
}  // namespace remesh::service
