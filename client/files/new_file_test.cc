// SPDX-License-Identifier: Apache-2.0
#include "client/files/new_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/status/status.h"
#include "base/error.h"
#include "gtest/gtest.h"

namespace remesh::client {
namespace {

class NewFileTest : public ::testing::Test {
 protected:
  NewFileTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~NewFileTest() override { std::filesystem::remove_all(folder_); }

  // Writes `text`; the reason why not, or "".
  std::string Make(const std::string& text, NewFile::Existing existing) {
    absl::StatusOr<NewFile> file = NewFile::Open(path_, existing);
    absl::Status status = file.status();
    if (status.ok()) status = file->Write(text);
    if (status.ok()) status = file->Commit();
    return status.ok() ? "" : GetErrorInfo(status).reason;
  }
  std::string Content() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / "new_file_test";
  const std::string path_ = folder_ / "file";
};

TEST_F(NewFileTest, IsThereWhenItIsCommittedAndNotBefore) {
  {
    absl::StatusOr<NewFile> file = NewFile::Open(path_, NewFile::Existing::kKeep);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write("half").ok());
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  EXPECT_EQ(Files(), 0u);
  EXPECT_EQ(Make("whole", NewFile::Existing::kKeep), "");
  EXPECT_EQ(Content(), "whole");
  EXPECT_EQ(Files(), 1u);
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms{0600});
}

TEST_F(NewFileTest, ReplacesWhatItMay) {
  EXPECT_EQ(Make("first", NewFile::Existing::kKeep), "");
  EXPECT_EQ(Make("second", NewFile::Existing::kKeep), "FILE_EXISTS");
  EXPECT_EQ(Content(), "first");
  EXPECT_EQ(Make("third", NewFile::Existing::kReplace), "");
  EXPECT_EQ(Content(), "third");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(NewFileTest, KeepsWhatCameWhileItWasWritten) {
  absl::StatusOr<NewFile> file = NewFile::Open(path_, NewFile::Existing::kKeep);
  ASSERT_TRUE(file.ok());
  std::ofstream(path_) << "another's";
  EXPECT_EQ(GetErrorInfo(file->Commit()).reason, "FILE_EXISTS");
  EXPECT_EQ(Content(), "another's");
}

TEST_F(NewFileTest, TwoWritersDoNotMeet) {
  const absl::StatusOr<NewFile> first = NewFile::Open(path_, NewFile::Existing::kReplace);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(Make("second", NewFile::Existing::kReplace), "FILE_NOT_WRITTEN");
}

TEST_F(NewFileTest, WhatACrashLeftIsReplaced) {
  std::ofstream(path_ + ".tmp") << "half of something longer";
  EXPECT_EQ(Make("whole", NewFile::Existing::kKeep), "");
  EXPECT_EQ(Content(), "whole");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(NewFileTest, AFolderThatIsNotThereIsAnError) {
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(Make("", NewFile::Existing::kKeep), "FILE_NOT_WRITTEN");
  EXPECT_TRUE(absl::IsNotFound(NewFile::Open(path_, NewFile::Existing::kKeep).status()));
}

}  // namespace
}  // namespace remesh::client
