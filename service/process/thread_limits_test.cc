// SPDX-License-Identifier: Apache-2.0
#include "service/process/thread_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/sanitized.h"

namespace remesh::service {
namespace {

// A sanitizer needs more memory than such a limit leaves.
constexpr bool kLimitsMemory = !REMESH_SANITIZED;

// Threads whose stacks find no room fail like threads beyond a limit; the limit itself does not
// bind root.
void LeaveRoomForFewThreads() {
  const rlimit room{1 << 30, 1 << 30};
  setrlimit(RLIMIT_AS, &room);
}

TEST(ThreadLimitsTest, AFewThreadsFit) { EXPECT_TRUE(CheckSpareThreads(50).ok()); }

TEST(ThreadLimitsDeathTest, TooManyAreRefusedWithTheLimits) {
  if (!kLimitsMemory) GTEST_SKIP() << "needs a limit on memory";
  EXPECT_EXIT(
      {
        LeaveRoomForFewThreads();
        const absl::Status status = CheckSpareThreads(1000);
        std::fprintf(stderr, "%s %s\n", GetErrorInfo(status).reason.c_str(),
                     std::string(status.message()).c_str());
        std::_Exit(3);
      },
      testing::ExitedWithCode(3),
      "THREAD_LIMIT only [0-9]+ of 1000 spare threads could be started: .* "
      "RLIMIT_NPROC");
}

TEST(ThreadLimitsDeathTest, AThreadThatCannotStartEndsInALine) {
  if (!kLimitsMemory) GTEST_SKIP() << "needs a limit on memory";
  EXPECT_EXIT(
      {
        LeaveRoomForFewThreads();
        ExplainTermination();
        std::thread([] {  // nothing catches there, as in the binaries
          while (true)
            std::thread([] { std::this_thread::sleep_for(std::chrono::hours(1)); }).detach();
        })
            .join();
      },
      testing::ExitedWithCode(1), "level=error msg=\"the process ends: no thread .* limits=");
}

}  // namespace
}  // namespace remesh::service
