// SPDX-License-Identifier: Apache-2.0
#include "worker/store/begun_writes.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {
namespace {

class BegunWritesTest : public ::testing::Test {
 protected:
  BegunWritesTest() {
    std::string path = ::testing::TempDir() + "/remesh_writes.XXXXXX";
    directory_ = mkdtemp(path.data());
  }
  ~BegunWritesTest() override { std::filesystem::remove_all(directory_); }

  BegunWrites Life() {
    BegunWrites writes;
    opened_ = writes.Open(path());
    return writes;
  }
  std::string path() const { return directory_ + "/writes"; }

  std::string directory_;
  absl::Status opened_;
};

TEST_F(BegunWritesTest, ALaterLifeKnowsWhatBeganAndDidNotEnd) {
  BegunWrites first = Life();
  ASSERT_TRUE(opened_.ok()) << opened_;
  EXPECT_EQ(first.Find("s", "u"), std::nullopt);
  first.Add("s", "u", "7");
  first.Add("t", "u", "");
  first.Add("s", "u", "8");
  BegunWrites second = Life();
  EXPECT_EQ(second.Find("s", "u"), "8");
  EXPECT_EQ(second.Find("t", "u"), "");
  second.Drop("s", "u");
  EXPECT_EQ(second.Find("s", "u"), std::nullopt);
  EXPECT_EQ(Life().Find("s", "u"), std::nullopt);
  EXPECT_EQ(Life().Find("t", "u"), "");
}

TEST_F(BegunWritesTest, AStateIsNotTakenForAnotherOfItsName) {
  BegunWrites writes = Life();
  writes.Add("s", "old", "7");
  EXPECT_EQ(writes.Find("s", "new"), std::nullopt);
  writes.Add("s", "new", "1");
  EXPECT_EQ(writes.Find("s", "old"), std::nullopt);
  writes.Drop("s", "old");
  EXPECT_EQ(writes.Find("s", "new"), "1");
}

TEST_F(BegunWritesTest, TheOldestGoesBeyondTheLimit) {
  BegunWrites writes = Life();
  for (size_t i = 0; i <= BegunWrites::kMax; ++i) writes.Add(absl::StrCat("s", i), "u", "7");
  EXPECT_EQ(writes.Find("s0", "u"), std::nullopt);
  EXPECT_EQ(writes.Find("s1", "u"), "7");
  EXPECT_EQ(writes.Find(absl::StrCat("s", BegunWrites::kMax), "u"), "7");
}

TEST_F(BegunWritesTest, WhatCannotBeWrittenIsKnownToThisLife) {
  BegunWrites writes;
  ASSERT_TRUE(writes.Open(directory_ + "/none/writes").ok());
  writes.Add("s", "u", "7");
  EXPECT_EQ(writes.Find("s", "u"), "7");
}

TEST_F(BegunWritesTest, ACorruptFileIsReportedAndReplaced) {
  std::ofstream(path()) << "x";
  BegunWrites writes = Life();
  EXPECT_EQ(GetErrorInfo(opened_).reason, "CORRUPT_FILE");
  writes.Add("s", "u", "7");
  EXPECT_EQ(Life().Find("s", "u"), "7");
}

}  // namespace
}  // namespace remesh::worker
