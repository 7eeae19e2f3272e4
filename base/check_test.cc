// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

namespace remesh {
namespace {

// Makes stderr a pipe that is full and is not read.
void FillStderr(int flags) {
  int ends[2];
  REMESH_CHECK(pipe2(ends, O_NONBLOCK) == 0);
  while (write(ends[1], "\n", 1) > 0) continue;
  REMESH_CHECK(fcntl(ends[1], F_SETFL, flags) == 0);
  REMESH_CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
}

// If the process does not abort, it is killed after a while.
void FailWithoutReader(int stderr_flags) {
  sigevent kill{.sigev_signo = SIGKILL, .sigev_notify = SIGEV_SIGNAL};
  timer_t timer;
  REMESH_CHECK(timer_create(CLOCK_MONOTONIC, &kill, &timer) == 0);
  const itimerspec end{.it_interval = {}, .it_value = {.tv_sec = 60, .tv_nsec = 0}};
  REMESH_CHECK(timer_settime(timer, 0, &end, nullptr) == 0);
  FillStderr(stderr_flags);
  REMESH_CHECK(false);
}

// As threads that leave signals to others do.
void FailWithoutReaderOrSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  FailWithoutReader(0);
}

TEST(CheckDeathTest, AFailedCheckSaysWhichAndWhere) {
  EXPECT_EXIT(REMESH_CHECK(1 + 1 == 3), testing::KilledBySignal(SIGABRT),
              "check_test.cc:[0-9]+: CHECK failed: 1 \\+ 1 == 3\n");
}

TEST(CheckTest, WhatHoldsEndsNothing) { REMESH_CHECK(1 + 1 == 2); }

// Regression: the process waited for stderr's reader forever.
TEST(CheckDeathTest, AReaderThatStandsStillKeepsNoProcessFromAborting) {
  EXPECT_EXIT(FailWithoutReader(0), testing::KilledBySignal(SIGABRT), "");
}

TEST(CheckDeathTest, NorDoesItWhereSignalsAreBlocked) {
  EXPECT_EXIT(FailWithoutReaderOrSignals(), testing::KilledBySignal(SIGABRT), "");
}

TEST(CheckDeathTest, NorDoesOneOfANonBlockingFile) {
  EXPECT_EXIT(FailWithoutReader(O_NONBLOCK), testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace remesh
