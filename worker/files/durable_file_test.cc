// SPDX-License-Identifier: Apache-2.0
#include "worker/files/durable_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "base/error.h"
#include "worker/manifest.pb.h"

namespace remesh::worker {
namespace {

namespace fs = std::filesystem;

class DurableFileTest : public ::testing::Test {
 protected:
  DurableFileTest() {
    std::string path = ::testing::TempDir() + "/remesh_durable.XXXXXX";
    directory_ = mkdtemp(path.data());
    path_ = directory_ + "/record";
  }
  ~DurableFileTest() override { fs::remove_all(directory_); }

  absl::Status Write(uint64_t epoch, const std::string& boot_id = "") {
    worker::GenerationManifest message;
    message.set_boot_id(boot_id);
    message.mutable_attempt()->set_execution(std::to_string(epoch));
    return WriteDurably(path_, message);
  }
  uint64_t Read() {
    worker::GenerationManifest message;
    const absl::Status status = ReadDurable(path_, message);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? std::stoull(message.attempt().execution()) : 0;
  }
  // The files that exist, whatever their names, and the blocks of each.
  std::set<std::pair<ino_t, blkcnt_t>> Space() const {
    std::set<std::pair<ino_t, blkcnt_t>> space;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      struct stat info;
      EXPECT_EQ(stat(entry.path().c_str(), &info), 0);
      space.insert({info.st_ino, info.st_blocks});
    }
    return space;
  }

  std::string directory_, path_;
};

TEST_F(DurableFileTest, ReservedWritesTakeNoNewSpaceInAnyNumber) {
  ASSERT_TRUE(ReserveWrites(path_, 9000).ok());
  const auto reserved = Space();
  for (uint64_t epoch = 1; epoch < 10; ++epoch) {
    ASSERT_TRUE(Write(epoch, std::string(epoch * 3571 % 8900, 'b')).ok());
    EXPECT_EQ(Read(), epoch);
    EXPECT_EQ(Space(), reserved) << "write " << epoch;
  }
}

// The file is of an earlier life, written before any space was reserved.
TEST_F(DurableFileTest, WhatIsThereIsReservedAndKept) {
  ASSERT_TRUE(Write(1).ok());
  ASSERT_TRUE(ReserveWrites(path_, 20000).ok());
  EXPECT_EQ(Read(), 1u);
  const auto reserved = Space();
  for (uint64_t epoch = 2; epoch < 5; ++epoch) {
    ASSERT_TRUE(Write(epoch, std::string(19000, 'b')).ok());
    EXPECT_EQ(Read(), epoch);
  }
  ASSERT_TRUE(ReserveWrites(path_, 20000).ok());
  EXPECT_EQ(Space(), reserved);
  EXPECT_EQ(Read(), 4u);
}

TEST_F(DurableFileTest, ACutFileIsCorrupt) {
  ASSERT_TRUE(Write(1, std::string(100, 'b')).ok());
  fs::resize_file(path_, fs::file_size(path_) - 1);
  worker::GenerationManifest message;
  const absl::Status status = ReadDurable(path_, message);
  EXPECT_EQ(GetErrorInfo(status).reason, "CORRUPT_FILE") << status;
  fs::remove(path_);
  EXPECT_TRUE(absl::IsNotFound(ReadDurable(path_, message)));
}

}  // namespace
}  // namespace remesh::worker
