// SPDX-License-Identifier: Apache-2.0
#include "worker/files/truncation_guard.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "worker/files/buffer_file.h"
#include "worker/files/huge_pages.h"

namespace remesh::worker {
namespace {

constexpr int64_t kBytes = 3 * 4096 + 100;

class TruncationGuardTest : public ::testing::Test {
 protected:
  TruncationGuardTest() {
    std::string path = ::testing::TempDir() + "/remesh_truncation.XXXXXX";
    directory_ = mkdtemp(path.data());
  }
  ~TruncationGuardTest() override { std::filesystem::remove_all(directory_); }

  MappedFile NewFile(const std::string& name) {
    EXPECT_TRUE(CreateReservedFile(directory_ + name, kBytes).ok());
    auto file = MappedFile::Open(directory_ + name, kBytes);
    EXPECT_TRUE(file.ok()) << file.status();
    std::memset(file->bytes().data(), 7, kBytes);
    return *std::move(file);
  }

  std::string directory_;
};

TEST_F(TruncationGuardTest, ATruncatedMappingIsZerosAndSaysSo) {
  const MappedFile cut = NewFile("/cut"), kept = NewFile("/kept");
  ASSERT_EQ(truncate((directory_ + "/cut").c_str(), 4096), 0);
  EXPECT_FALSE(cut.truncated());
  EXPECT_EQ(GetErrorInfo(cut.CheckWhole()).reason, "BUFFER_TRUNCATED");
  EXPECT_EQ(cut.bytes()[0], std::byte{7});
  EXPECT_EQ(cut.bytes()[kBytes - 1], std::byte{0});
  EXPECT_TRUE(cut.truncated());
  cut.bytes()[2 * 4096] = std::byte{1};
  EXPECT_EQ(cut.bytes()[2 * 4096], std::byte{1});
  // The file has its length again, but for this mapping it stays truncated.
  ASSERT_EQ(truncate((directory_ + "/cut").c_str(), kBytes), 0);
  const absl::Status status = cut.CheckWhole();
  EXPECT_EQ(GetErrorInfo(status).reason, "BUFFER_TRUNCATED");
  EXPECT_EQ(GetErrorInfo(status).metadata["path"], directory_ + "/cut");
  EXPECT_TRUE(kept.CheckWhole().ok());
  EXPECT_EQ(kept.bytes()[kBytes - 1], std::byte{7});
}

// Nothing is accessed between the cut and the growth, as between the last write of a transfer and
// the check.
TEST(TruncationTest, WhatIsGrownBackOnATmpfsLacksItsPages) {
  std::string directory = "/dev/shm/remesh_truncation.XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/file";
  for (const int64_t bytes : {int64_t{100}, kBytes, 4 * kHugePageBytes + 100}) {
    for (const int64_t cut : {int64_t{0}, bytes / 4096 * 4096}) {
      SCOPED_TRACE(absl::StrCat(bytes, " cut to ", cut));
      ASSERT_TRUE(CreateReservedFile(path, bytes).ok());
      {
        const auto file = MappedFile::Open(path, bytes);
        ASSERT_TRUE(file.ok()) << file.status();
        EXPECT_TRUE(file->CheckWhole().ok());  // reserved, not written yet
        std::memset(file->bytes().data(), 7, static_cast<size_t>(bytes));
        EXPECT_TRUE(file->CheckWhole().ok());
        ASSERT_EQ(truncate(path.c_str(), cut), 0);
        ASSERT_EQ(truncate(path.c_str(), bytes), 0);
        EXPECT_EQ(GetErrorInfo(file->CheckWhole()).reason, "BUFFER_TRUNCATED");
        EXPECT_FALSE(file->truncated());
      }
      EXPECT_EQ(GetErrorInfo(MappedFile::Open(path, bytes).status()).reason, "BUFFER_TRUNCATED");
      std::filesystem::remove(path);
    }
  }
  std::filesystem::remove_all(directory);
}

TEST_F(TruncationGuardTest, ThreadsMayMeetItAtOnce) {
  for (int round = 0; round < 50; ++round) {
    const MappedFile file = NewFile("/file" + std::to_string(round));
    ASSERT_EQ(truncate((directory_ + "/file" + std::to_string(round)).c_str(), 0), 0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&file, t] {
        auto page = file.bytes().subspan(t * 4096);
        page = page.subspan(0, std::min<size_t>(page.size(), 4096));
        if (t % 2 == 0) std::memset(page.data(), 0, page.size());
        EXPECT_EQ(std::ranges::count(page, std::byte{0}), std::ssize(page));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(file.truncated());
  }
}

TEST_F(TruncationGuardTest, WhatNoGuardCoversStillEndsTheProcess) {
  std::vector<std::byte> own(4096);
  const TruncationGuard guard(own);
  EXPECT_DEATH(raise(SIGBUS), "");
}

}  // namespace
}  // namespace remesh::worker
