// SPDX-License-Identifier: Apache-2.0
// Files of buffers that other processes cut, grow or open during a move.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "worker/execution/mover.h"
#include "worker/execution/testing/mover_cases.h"
#include "worker/execution/testing/mover_fixture.h"

namespace remesh::worker {
namespace {

// Whenever it happens, at either end, in any window, it is an error of that host that names the
// file.
TEST_P(MoverTest, ATruncatedBufferFailsTheAttemptAndNotTheProcess) {
  if (OnGpus()) GTEST_SKIP() << "files are the host's";
  for (const char* side : {"source", "target"}) {
    for (const int done : {0, 1, 3}) {
      SCOPED_TRACE(absl::StrCat(side, " cut after ", done, " windows"));
      Start(RowsToColumns(2, 3));
      ASSERT_TRUE(Transfer(done));
      TestHost& cut = *hosts_[1];
      const size_t shards = cut.source().files.size();
      for (size_t i = 0; i < shards; ++i) std::filesystem::resize_file(cut.PathOf(side, i), 0);
      const absl::Status status = EndAt(cut, done);
      EXPECT_EQ(GetErrorInfo(status).reason, "BUFFER_TRUNCATED") << status;
      EXPECT_EQ(GetErrorInfo(status).metadata["path"], cut.PathOf(side, 0));
      StopAll();
    }
  }
}

// Cut and grown back. Regression: what was read then came as zeros, and made
// the pages again, so that nothing was missing afterwards.
TEST_P(MoverTest, ABufferThatWasCutAndGrownBackFailsTheAttempt) {
  if (OnGpus()) GTEST_SKIP() << "files are the host's";
  for (const std::string side : {"source", "target"}) {
    for (const int done : {0, 1, 3}) {
      for (const bool pages_come_back : {false, true}) {
        SCOPED_TRACE(absl::StrCat(side, " cut after ", done, " windows", pages_come_back));
        Start(RowsToColumns(2, 3));
        ASSERT_TRUE(Transfer(done));
        CutAndGrow(*hosts_[1], side, pages_come_back);
        const absl::Status status = EndAt(*hosts_[1], done);
        const std::string modified = side == "source" ? "SOURCE_MODIFIED" : "TARGET_MODIFIED";
        EXPECT_EQ(GetErrorInfo(status).reason, pages_come_back ? modified : "BUFFER_TRUNCATED")
            << status;
        StopAll();
      }
    }
  }
}

// As where the kernel has no more watches to give.
TEST_P(MoverTest, AHoleIsFoundRightBeforeTheFirstReadingAndIsNotFilled) {
  if (OnGpus()) GTEST_SKIP() << "files are the host's";
  TestCase c = RowsToColumns(2, 3);
  c.watched = false;
  Start(c);
  TestHost& cut = *hosts_[1];
  CutAndGrow(cut, "source", false);
  GrantAll();
  ASSERT_TRUE(Until([&] { return cut.failure.has_value(); }));
  EXPECT_EQ(GetErrorInfo(*cut.failure).reason, "BUFFER_TRUNCATED") << *cut.failure;
  for (size_t i = 0; i < cut.source().files.size(); ++i)
    EXPECT_FALSE(cut.source().files[i].CheckWhole().ok()) << cut.PathOf("source", i);
}

TEST_P(MoverTest, WhoOpensASourceDoesNotFailTheAttempt) {
  if (OnGpus()) GTEST_SKIP() << "files are the host's";
  Start(RowsToColumns(2, 3));
  TestHost& host = *hosts_[1];
  for (int until = 1; until <= 3; ++until) {
    for (size_t i = 0; i < host.source().files.size(); ++i)
      EXPECT_TRUE(MappedFile::Open(host.PathOf("source", i), 1).ok());
    for (auto& each : hosts_) each->mover().Grant(until);
    ASSERT_TRUE(Until([&] { return All([&](TestHost& h) { return h.done_windows == until; }); }));
  }
  ExpectVerified();
}

}  // namespace
}  // namespace remesh::worker
