// SPDX-License-Identifier: Apache-2.0
#include "service/rpc/audit_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"

namespace remesh::service {
namespace {

class AuditFileTest : public testing::Test {
 protected:
  AuditFileTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::unique_ptr<AuditFile> Open(const std::string& path, size_t waiting_bytes_max = 1 << 20) {
    auto file = AuditFile::Open(
        {.path = path, .on_lost = [this] { ++lost_; }, .waiting_bytes_max = waiting_bytes_max});
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  const std::string folder_ = testing::TempDir() + "/audit_file_test";
  const std::string path_ = folder_ + "/audit.jsonl";
  std::atomic<int> lost_ = 0;
};

TEST_F(AuditFileTest, LinesAreAppended) {
  std::ofstream(path_) << "before\n";
  auto file = Open(path_);
  file->Append("one\n");
  file->Append("two\n");
  file = nullptr;
  EXPECT_EQ(Read(path_), "before\none\ntwo\n");
  EXPECT_EQ(lost_, 0);
}

TEST_F(AuditFileTest, AFileThatIsMovedAwayIsMadeAgain) {
  auto file = Open(path_);
  file->Append("one\n");
  while (Read(path_).empty()) usleep(1000);
  std::filesystem::rename(path_, path_ + ".1");
  file->Append("two\n");
  file = nullptr;
  EXPECT_EQ(Read(path_ + ".1"), "one\n");
  EXPECT_EQ(Read(path_), "two\n");
}

TEST_F(AuditFileTest, OnAFullDiskLinesAreLostAndCounted) {
  auto file = Open("/dev/full");
  file->Append("one\n");
  file = nullptr;
  EXPECT_EQ(lost_, 1);
}

// A pipe that is not read takes 64 KiB; the disk is as slow as one can be.
TEST_F(AuditFileTest, WhoeverAppendsNeverWaits) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto file = Open(path_);
  for (int i = 0; i < 300; ++i) file->Append(std::string(1023, 'x') + "\n");
  file = nullptr;
  EXPECT_GT(lost_, 200);
  close(reader);
}

TEST_F(AuditFileTest, WhatWaitsIsBounded) {
  auto file = Open(path_, /*waiting_bytes_max=*/10);
  file->Append("a line of more than ten bytes\n");
  file = nullptr;
  EXPECT_EQ(lost_, 1);
  EXPECT_EQ(Read(path_), "");
}

TEST_F(AuditFileTest, AFileThatCannotBeWrittenIsRefusedAtTheStart) {
  const auto file = AuditFile::Open({.path = folder_ + "/absent/audit.jsonl"});
  EXPECT_EQ(GetErrorInfo(file.status()).metadata["field"], "audit_log_file");
  EXPECT_FALSE(AuditFile::Open({.path = "/proc/self/mem"}).ok());
}

}  // namespace
}  // namespace remesh::service
