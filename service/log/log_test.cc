// SPDX-License-Identifier: Apache-2.0
#include "service/log/log.h"

#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "service/log/library_log.h"
#include "service/log/log_budget.h"
#include "service/log/recent_log.h"
#include "service/tls/authorization.h"

namespace remesh::service {
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

TEST(LogTest, TheReasonOfAStatusIsAField) {
  const absl::Status refused = InvalidField("shape[1]", "-3", "must be >= 0");
  EXPECT_EQ(
      FormatLog(LogLevel::kWarning, "refused", {{"error", refused}, {"host", "a"}}),
      R"(level=warning msg=refused error="INVALID_ARGUMENT: shape[1]: value \"-3\" must be >= 0" reason=INVALID_FIELD host=a)");
}

TEST(LogTest, JsonHasTheSameKeys) {
  const absl::Status refused = InvalidField("shape[1]", "-3", "must be >= 0");
  const std::string line =
      FormatLog(LogLevel::kWarning, "refused \"it\"\n",
                {{"n", 7}, {"error", refused}, {"bytes", "\xff"}}, LogFormat::kJson);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const nlohmann::json read = nlohmann::json::parse(line);
  EXPECT_EQ(read.at("level"), "warning");
  EXPECT_EQ(read.at("msg"), "refused \"it\"\n");
  EXPECT_EQ(read.at("n"), "7");
  EXPECT_EQ(read.at("reason"), "INVALID_FIELD");
  EXPECT_EQ(read.size(), 6u);
}

// Regression: a state's name could turn the rest of the line, or clear the terminal.
TEST(LogTest, WhatATerminalObeysIsEscaped) {
  const LogFields fields = {
      {"state", "a\u202eb"}, {"host", "\x7f\u009b2J"}, {"array", "\u00e9\xff"}};
  EXPECT_EQ(FormatLog(LogLevel::kInfo, "m", fields),
            R"(level=info msg=m state=a\u202eb host=\177\u009b2J array=)"
            "\u00e9\\xff");
  const std::string json = FormatLog(LogLevel::kInfo, "m", fields, LogFormat::kJson);
  EXPECT_NE(json.find(R"("state":"a\u202eb","host":"\u007f\u009b2J")"), std::string::npos) << json;
  testing::internal::CaptureStderr();
  LogLast("remesh-test", absl::UnavailableError("no \u202ex\x7f"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "remesh-test: no \\u202ex\\x7f\n");
}

TEST(LogTest, AJsonLogIsAnObjectALine) {
  ASSERT_TRUE(SetLog("info", "json").ok());
  testing::internal::CaptureStderr();
  LogWarning("worker is away", {{"host", "a b"}});
  LogLast("remesh-test", absl::UnavailableError("no disk"));
  std::istringstream lines(testing::internal::GetCapturedStderr());
  ASSERT_TRUE(SetLog("info", "logfmt").ok());
  std::string line;
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    const nlohmann::json read = nlohmann::json::parse(line);
    EXPECT_TRUE(read.contains("time") && read.contains("level") && read.contains("msg")) << line;
  }
  EXPECT_EQ(count, 2);
}

// An operator looks up the reason: docs/runbooks/RemeshServerDown.md.
TEST(LogTest, TheLastLineNamesTheReason) {
  const absl::Status damaged =
      MakeError(absl::StatusCode::kDataLoss, "journal j is damaged: two\nlines",
                {.reason = "JOURNAL_CORRUPT", .metadata = {}});
  testing::internal::CaptureStderr();
  LogLast("remesh-test", damaged);
  LogLast("remesh-test", absl::UnavailableError("no disk"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "remesh-test: journal j is damaged: two; lines (JOURNAL_CORRUPT)\n"
            "remesh-test: no disk\n");
}

TEST(LogTest, LevelsHaveNames) {
  EXPECT_TRUE(SetLog("error", "logfmt").ok());
  EXPECT_EQ(GetErrorInfo(SetLog("loud", "json")).metadata["value"], "loud");
  EXPECT_EQ(GetErrorInfo(SetLog("info", "xml")).metadata["field"], "log_format");
  testing::internal::CaptureStderr();
  LogInfo("dropped");
  LogError("kept");
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines.find("dropped"), std::string::npos);
  EXPECT_NE(lines.find("Z level=error msg=kept\n"), std::string::npos);
  SetLogLevel(LogLevel::kInfo);
}

TEST(LogBudgetTest, AMessageThatComesTooOftenIsCounted) {
  LogBudget budget;
  Timestamp now = std::chrono::hours(1);
  for (int i = 0; i < LogBudget::kEach.burst; ++i) EXPECT_EQ(budget.Take("flood", now), 0);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(budget.Take("flood", now), std::nullopt);
  EXPECT_EQ(budget.Take("other", now), 0) << "others are not held up";
  now += std::chrono::seconds(1);
  EXPECT_EQ(budget.Take("flood", now), 7);
  EXPECT_EQ(budget.Take("flood", now), 0);
}

TEST(LogBudgetTest, ManyMessagesTogetherAreLimitedToo) {
  LogBudget budget;
  int written = 0;
  for (int i = 0; i < 100'000; ++i)
    written += budget.Take(absl::StrCat("line ", i), std::chrono::hours(1)).has_value();
  EXPECT_EQ(written, LogBudget::kAll.burst);
  EXPECT_EQ(budget.TakeDroppedInAll(), 100'000 - LogBudget::kAll.burst) << "each is told of";
  EXPECT_EQ(budget.TakeDroppedInAll(), 0) << "once";
}

TEST(LogBudgetTest, WhatIsForgottenIsToldOf) {
  LogBudget budget;
  for (int i = 0; i < LogBudget::kEach.burst + 3; ++i) budget.Take("flood", std::chrono::hours(1));
  EXPECT_EQ(budget.TakeDroppedInAll(), 0) << "the next of them tells";
  for (int i = 0; i < 1'000; ++i)  // so many messages are remembered
    budget.Take(absl::StrCat("line ", i), std::chrono::hours(1) + std::chrono::seconds(i));
  EXPECT_EQ(budget.TakeDroppedInAll(), 3);
}

// GetServer shows it, in a message that must be UTF-8.
TEST(LogTest, ALineThatIsRememberedIsCutBetweenCharacters) {
  RememberLogLine(std::string(4095, 'x') + "\u00e9");
  EXPECT_EQ(RecentLogLines().back(), std::string(4095, 'x'));
  RememberLogLine(std::string(4094, 'x') + "\u00e9");
  EXPECT_EQ(RecentLogLines().back(), std::string(4094, 'x') + "\u00e9");
}

TEST(LogTest, WhatWasSuppressedIsSaid) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10'000; ++i) LogInfo("flood of the test");
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_LT(std::count(lines.begin(), lines.end(), '\n'), 1000);
}

TEST(LogTest, GrpcSpeaksInOurLines) {
  LogGrpcAsOurs();
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  testing::internal::CaptureStderr();
  gpr_log(GPR_ERROR, "Failed %s", "accept4");
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find(" level=warning msg=gRPC cause=\"Failed accept4\" at=log_test.cc:"),
            std::string::npos)
      << line;
}

TEST(AuthorizationTest, JobsOfNames) {
  EXPECT_EQ(JobOf("jobs/a/states/b"), "a");
  EXPECT_EQ(JobOf("jobs/a"), "a");
  EXPECT_EQ(JobOf("plans/x"), "");
  EXPECT_EQ(ResourceOf("workers/h").host, "h");
  EXPECT_EQ(ResourceOf("workers/h").job, "");
  EXPECT_TRUE(AllowAll()({}, {.job = "a"}, "GetPlan").ok());
}

}  // namespace
}  // namespace remesh::service
