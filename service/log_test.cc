// SPDX-License-Identifier: Apache-2.0
#include "service/log.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "service/authorization.h"

namespace remesh {
namespace {

TEST(LogTest, LinesArePairs) {
  EXPECT_EQ(
      FormatLog(LogLevel::kWarning, "worker is away",
                {{"host", "a"},
                 {"seconds", 1.5},
                 {"n", int64_t{7}},
                 {"what", "x=\"1\"\n"},
                 {"none", ""}}),
      R"(level=warning msg="worker is away" host=a seconds=1.5 n=7 what="x=\"1\"\n" none="")");
  EXPECT_EQ(FormatLog(LogLevel::kError, "failed", {{"error", absl::NotFoundError("no b")}}),
            R"(level=error msg=failed error="NOT_FOUND: no b")");
}

TEST(LogTest, LevelsHaveNames) {
  EXPECT_TRUE(SetLogLevel("error").ok());
  EXPECT_EQ(GetErrorInfo(SetLogLevel("loud")).metadata["value"], "loud");
  testing::internal::CaptureStderr();
  LogInfo("dropped");
  LogError("kept");
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines.find("dropped"), std::string::npos);
  EXPECT_NE(lines.find("Z level=error msg=kept\n"), std::string::npos);
  SetLogLevel(LogLevel::kInfo);
}

TEST(AuthorizationTest, JobsOfNames) {
  EXPECT_EQ(JobOf("jobs/a/states/b"), "a");
  EXPECT_EQ(JobOf("jobs/a"), "a");
  EXPECT_EQ(JobOf("plans/x"), "");
  EXPECT_TRUE(AllowAll()({}, "a", "GetPlan").ok());
}

}  // namespace
}  // namespace remesh
