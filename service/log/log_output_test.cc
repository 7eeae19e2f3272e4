// SPDX-License-Identifier: Apache-2.0
// The log of a process in which a thread writes it.
#include "service/log/log_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "service/log/log.h"

namespace remesh::service {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// More than may wait, whatever the pipe holds.
constexpr int kMany = static_cast<int>(LogOutput::kLinesMax) + 3000;

// Replaces stderr by a pipe, until it is destroyed.
class PipedStderr {
 public:
  PipedStderr() {
    REMESH_CHECK(pipe2(ends_, O_CLOEXEC) == 0 && dup2(ends_[1], STDERR_FILENO) >= 0);
    // An open file of its own, as another process may have.
    other_ =
        open(absl::StrCat("/proc/self/fd/", ends_[1]).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    REMESH_CHECK(other_ >= 0 && close(ends_[1]) == 0);
  }
  ~PipedStderr() {
    close(ends_[0]);
    FlushLog();  // what is left is lost
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    close(other_);
  }

  // Another process fills the pipe.
  void Fill() {
    while (write(other_, "\n", 1) > 0) continue;
  }
  // Another process writes a line.
  void Send(const std::string& line) {
    while (write(other_, line.data(), line.size()) < 0) std::this_thread::yield();
  }
  // What is not in the pipe yet goes to the old stderr.
  void Leave() { dup2(saved_, STDERR_FILENO); }
  // The lines from here to the first that contains the text, except empty ones.
  std::vector<std::string> ReadTo(const std::string& text) {
    std::vector<std::string> lines;
    while (lines.empty() || !absl::StrContains(lines.back(), text)) lines.push_back(ReadLine());
    return lines;
  }

 private:
  std::string ReadLine() {
    size_t end = 0;
    while (read_.erase(0, read_.find_first_not_of('\n')),
           (end = read_.find('\n')) == std::string::npos) {
      char page[4096];
      const ssize_t bytes = read(ends_[0], page, sizeof(page));
      REMESH_CHECK(bytes > 0);
      read_.append(page, static_cast<size_t>(bytes));
    }
    std::string line = read_.substr(0, end);
    read_.erase(0, end);
    return line;
  }

  const int saved_ = dup(STDERR_FILENO);
  int ends_[2];
  int other_;
  std::string read_;
};

// Debug lines have no budget that could drop them.
void LogNumber(int64_t number, std::string_view more = "") {
  Log(LogLevel::kDebug, "line", {{"number", number}, {"more", more}});
}

int64_t FieldOf(const std::string& line, const std::string& key) {
  int64_t value = 0;
  for (const absl::string_view pair : absl::StrSplit(line, ' ')) {
    const std::vector<std::string> parts = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (parts[0] == key) REMESH_CHECK(absl::SimpleAtoi(parts[1], &value));
  }
  return value;
}

int64_t LostOf(const std::vector<std::string>& lines) {
  int64_t lost = 0;
  for (const std::string& line : lines) lost += FieldOf(line, "lost");
  return lost;
}

// In these tests a caller that waited for the reader would wait forever.
class LogOutputTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    SetLogLevel(LogLevel::kDebug);
    std::signal(SIGPIPE, SIG_IGN);
    StartLogThread();
  }
  LogOutputTest() { LogOutput::Stderr().TakeLost(); }

  PipedStderr out_;
};

// Regression: the first line, and with it the controller's strand, waited for the reader.
TEST_F(LogOutputTest, AReaderThatDoesNotReadHoldsUpNoThreadAndLearnsWhatItLost) {
  out_.Fill();
  for (int i = 0; i < kMany; ++i) LogNumber(i);
  const std::string last_kept = absl::StrCat("number=", LogOutput::kLinesMax - 1, " ");
  std::vector<std::string> lines = out_.ReadTo(last_kept);
  LogNumber(kMany);
  LogNumber(kMany + 1);
  const std::vector<std::string> rest = out_.ReadTo(absl::StrCat("number=", kMany + 1));
  lines.insert(lines.end(), rest.begin(), rest.end());
  EXPECT_EQ(static_cast<int64_t>(lines.size()) + LostOf(lines), kMany + 2);
  EXPECT_GT(FieldOf(rest.end()[-2], "lost"), 0) << rest.end()[-2];
  EXPECT_EQ(FieldOf(rest.back(), "lost"), 0) << "once";
}

TEST_F(LogOutputTest, LongLinesAreLostSooner) {
  const std::string page(64 << 10, 'x');
  out_.Fill();
  for (int i = 0; i < 40; ++i) LogNumber(i, page);
  const int kept = static_cast<int>(LogOutput::kBytesMax) / (64 << 10);
  out_.ReadTo(absl::StrCat("number=", kept - 1, " "));
  LogNumber(40);
  EXPECT_GT(LostOf(out_.ReadTo("number=40 ")), 0);
}

// Regression: each line waited for a slow reader for a while, and then was lost.
TEST_F(LogOutputTest, AReaderThatIsSlowLosesNothing) {
  out_.Fill();
  for (int i = 0; i < 1000; ++i) LogNumber(i);
  const std::vector<std::string> lines = out_.ReadTo("number=999 ");
  ASSERT_THAT(lines, SizeIs(1000));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(FieldOf(lines[i], "number"), i);
  EXPECT_THAT(lines, Each(Not(HasSubstr("lost="))));
}

// Regression: after poll() had found room, another process could fill the pipe before the write.
TEST_F(LogOutputTest, AWriteThatBlocksHoldsUpNoThread) {
  const std::string more_than_a_pipe(200 << 10, 'x');
  LogNumber(0, more_than_a_pipe);  // there is room for its begin
  for (int i = 1; i < 100; ++i) {
    out_.Fill();
    LogNumber(i);
  }
  const std::vector<std::string> lines = out_.ReadTo("number=99 ");
  EXPECT_THAT(lines, Each(Not(HasSubstr("lost="))));
}

// Regression: a number that one thread had taken for its line vanished when that line was lost.
TEST_F(LogOutputTest, LinesThatThreadsLoseAtOnceAreAllCounted) {
  constexpr int kThreads = 4;
  out_.Fill();
  std::vector<std::thread> loggers;
  for (int i = 0; i < kThreads; ++i) {
    loggers.emplace_back([i] {
      for (int n = 0; n < kMany; ++n) LogNumber(n + int64_t{i} * kMany);
    });
  }
  std::vector<std::string> lines;
  absl::Notification read;
  std::thread reader([&] {
    lines = out_.ReadTo("msg=last ");
    read.Notify();
  });
  for (std::thread& logger : loggers) logger.join();
  // The first that is not lost ends the reading.
  for (int i = 0; !read.HasBeenNotified(); ++i) Log(LogLevel::kDebug, "last", {{"before", i}});
  reader.join();
  EXPECT_EQ(static_cast<int64_t>(lines.size()) + LostOf(lines),
            kThreads * kMany + FieldOf(lines.back(), "before") + 1);
  std::vector<int64_t> before(kThreads, -1);
  lines.pop_back();
  for (const std::string& line : lines) {
    const int64_t number = FieldOf(line, "number");
    EXPECT_LT(std::exchange(before[number / kMany], number), number) << "in order";
  }
}

TEST_F(LogOutputTest, AReaderThatIsGoneEndsNothing) {
  {
    PipedStderr gone;
    gone.Fill();
    LogNumber(1);
  }
  LogNumber(2);
  const std::vector<std::string> lines = out_.ReadTo("number=2 ");
  EXPECT_THAT(lines, SizeIs(1));
  EXPECT_EQ(LostOf(lines), 1);
}

TEST_F(LogOutputTest, ThatStderrIsNonBlockingLosesNothing) {
  ASSERT_EQ(fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK), 0);
  out_.Fill();
  for (int i = 0; i < 100; ++i) LogNumber(i);
  const std::vector<std::string> lines = out_.ReadTo("number=99 ");
  EXPECT_THAT(lines, SizeIs(100));
}

// A signal for the process must not be lost to a thread that is stuck in a write.
TEST_F(LogOutputTest, TheThreadTakesNoSignals) {
  int others = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == absl::StrCat(gettid())) continue;
    ++others;
    std::ifstream status(task.path() / "status");
    std::string word;
    while (status >> word && word != "SigBlk:") continue;
    uint64_t blocked = 0;
    status >> std::hex >> blocked;
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE})
      EXPECT_NE(blocked & uint64_t{1} << (number - 1), 0u) << number;
  }
  EXPECT_GE(others, 1);
}

// The process of a death test has no log thread yet.
class LogEndDeathTest : public ::testing::Test {
 protected:
  LogEndDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void LogMany() {
    SetLogLevel(LogLevel::kDebug);
    StartLogThread();
    for (int i = 0; i < 100; ++i) LogNumber(i);
    LogNumber(100, std::string(size_t{500} << 10, 'x'));
    LogNumber(101);
  }
};

// Holds the lines up until the process has begun to end.
struct HeldUp {
  static inline PipedStderr* out = nullptr;
  static inline std::thread* reader = nullptr;
  static inline size_t lines = 0;

  // Exit handlers run from the last to the first.
  static void LogThreeLinesAndExit() {
    out = new PipedStderr();
    out->Fill();
    std::atexit([] {
      out->Leave();
      out->Send("\nend\n");
      reader->join();
      std::fprintf(stderr, "%zu lines were in the pipe\n", lines);
    });
    StartLogThread();
    std::atexit([] { reader = new std::thread([] { lines = out->ReadTo("end").size() - 1; }); });
    for (const size_t bytes : {1, 300'000, 1}) LogInfo("held up", {{"x", std::string(bytes, 'x')}});
    std::exit(0);
  }
};

TEST_F(LogEndDeathTest, WhatWaitsIsWrittenAtExit) {
  EXPECT_EXIT(HeldUp::LogThreeLinesAndExit(), ::testing::ExitedWithCode(0), "3 lines were");
}

TEST_F(LogEndDeathTest, WhatWaitsIsWrittenBeforeAnAbort) {
  EXPECT_EXIT(
      {
        LogMany();
        std::abort();
      },
      ::testing::KilledBySignal(SIGABRT), "number=101 ");
}

TEST_F(LogEndDeathTest, WhatWaitsIsWrittenBeforeAFaultEndsTheProcess) {
  EXPECT_EXIT(
      {
        LogMany();
        std::raise(SIGILL);
      },
      ::testing::KilledBySignal(SIGILL), "number=101 ");
}

TEST_F(LogEndDeathTest, WhatWaitsIsWrittenBeforeAnImmediateEnd) {
  EXPECT_EXIT(
      {
        LogMany();
        FlushLog();
        std::_Exit(3);
      },
      ::testing::ExitedWithCode(3), "number=101 ");
}

TEST_F(LogEndDeathTest, AReaderThatDoesNotReadDoesNotKeepTheProcess) {
  EXPECT_EXIT(
      {
        PipedStderr out;
        StartLogThread();
        out.Fill();
        LogInfo("this is not read");
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace remesh::service
