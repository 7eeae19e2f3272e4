// SPDX-License-Identifier: Apache-2.0
#include "service/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace remesh {
namespace {

TEST(SignalsTest, WaitsForASignalOfThisProcess) {
  ShutdownSignal signal;
  std::thread killer([] { kill(getpid(), SIGTERM); });
  EXPECT_EQ(signal.Wait(), SIGTERM);
  killer.join();
}

TEST(SignalsTest, CanBeTriggered) {
  ShutdownSignal signal;
  std::thread other([&] { signal.Trigger(); });
  EXPECT_EQ(signal.Wait(), 0);
  other.join();
}

}  // namespace
}  // namespace remesh
