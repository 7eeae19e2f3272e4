// SPDX-License-Identifier: Apache-2.0
#include "worker/join_token.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace remesh::worker {
namespace {

class JoinTokenTest : public ::testing::Test {
 protected:
  JoinTokenTest() { Write("first\n"); }
  ~JoinTokenTest() override { std::filesystem::remove(path_); }

  void Write(const std::string& text) { std::ofstream(path_) << text; }
  // What the log says while the file is read.
  std::string LogOfRead() {
    testing::internal::CaptureStderr();
    token_.Read();
    return testing::internal::GetCapturedStderr();
  }

  const std::string path_ = ::testing::TempDir() + "/replaced_join_token";
  JoinToken token_{path_, "first"};
};

TEST_F(JoinTokenTest, AFileThatWasReplacedIsReadAgain) {
  EXPECT_EQ(token_.Read(), "first");
  Write(" second \nfirst\n");
  EXPECT_EQ(token_.Read(), "second");
}

TEST_F(JoinTokenTest, TheTokenStaysWhileTheFileHasNone) {
  Write("\n");
  EXPECT_EQ(token_.Read(), "first");
  std::filesystem::remove(path_);
  EXPECT_EQ(token_.Read(), "first");
  Write("second\n");
  EXPECT_EQ(token_.Read(), "second");
}

TEST_F(JoinTokenTest, EachReasonIsLoggedOnce) {
  Write("");
  EXPECT_NE(LogOfRead().find("must have a token in its first line"), std::string::npos);
  EXPECT_EQ(LogOfRead(), "");
  std::filesystem::remove(path_);
  EXPECT_NE(LogOfRead().find("cannot be read: No such file"), std::string::npos);
  EXPECT_EQ(LogOfRead(), "");
  Write("second\n");
  EXPECT_EQ(LogOfRead(), "");
  Write("");
  EXPECT_NE(LogOfRead(), "");
}

TEST_F(JoinTokenTest, WithoutAFileThereIsNoToken) {
  JoinToken none("", "");
  EXPECT_EQ(none.Read(), "");
}

}  // namespace
}  // namespace remesh::worker
