// SPDX-License-Identifier: Apache-2.0
#include "worker/store/modify_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "worker/files/testing/tmpfs_directory.h"
#include "worker/store/testing/no_more_files.h"

namespace remesh::worker {
namespace {

constexpr int64_t kWatchedBytes = 3 * 4096;
constexpr int kPunchHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

// A generation with one file, and a trainer that has the file open before it is
// watched.
class ModifyWatchTest : public ::testing::Test {
 protected:
  ModifyWatchTest() : path_(directory_ + "/a") {
    EXPECT_TRUE(CreateReservedFile(path_, kWatchedBytes).ok());
    shards_.files.push_back(*MappedFile::Open(path_, kWatchedBytes));
    trainer_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  }
  ~ModifyWatchTest() override {
    close(trainer_);
    std::filesystem::remove_all(directory_);
  }

  // Maps the file and lets `use` have its bytes.
  void Map(const std::function<void(volatile char*)>& use) const {
    void* const mapped =
        mmap(nullptr, kWatchedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, trainer_, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    use(static_cast<char*>(mapped));
    munmap(mapped, kWatchedBytes);
  }
  void ReadEveryPage() const {
    Map([](volatile char* bytes) {
      for (int64_t at = 0; at < kWatchedBytes; at += 4096) static_cast<void>(bytes[at]);
    });
  }

  const std::string directory_ = NewTmpfsDirectory("remesh_modify");
  const std::string path_;
  MappedShards shards_;
  int trainer_ = -1;
};

TEST_F(ModifyWatchTest, WhoOpensMapsOrStoresModifiesNothing) {
  ASSERT_EQ(pwrite(trainer_, "x", 1, 0), 1);  // before the watch
  ModifyWatch watch;
  EXPECT_TRUE(watch.Add(shards_, ModifyWatch::Side::kSource).ok());
  const int reader = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  char byte = 0;
  EXPECT_EQ(pread(reader, &byte, 1, 0), 1);
  close(reader);
  Map([](volatile char* bytes) { bytes[0] = 'y'; });
  EXPECT_TRUE(watch.Check().ok()) << watch.Check();
  EXPECT_FALSE(watch.source_modified());
}

TEST_F(ModifyWatchTest, EveryCallThatChangesTheFileIsSeenAndStaysSeen) {
  const std::vector<std::function<int()>> changes = {
      [&] { return pwrite(trainer_, "x", 1, 5000) == 1 ? 0 : -1; },
      [&] { return ftruncate(trainer_, kWatchedBytes - 100) + ftruncate(trainer_, kWatchedBytes); },
      [&] { return fallocate(trainer_, kPunchHole, 4096, 4096); },
      [&] { return fallocate(trainer_, kPunchHole, 100, 10); },  // zeros alone: no page goes
      [&] { return truncate(path_.c_str(), 0) + truncate(path_.c_str(), kWatchedBytes); }};
  for (const auto& change : changes) {
    ModifyWatch watch;
    EXPECT_TRUE(watch.Add(shards_, ModifyWatch::Side::kSource).ok());
    ASSERT_EQ(change(), 0);
    ReadEveryPage();
    EXPECT_TRUE(shards_.CheckWhole().ok()) << "every page is there again";
    for (int i = 0; i < 2; ++i) {
      const ErrorInfo info = GetErrorInfo(watch.Check());
      EXPECT_EQ(info.reason, "SOURCE_MODIFIED");
      EXPECT_EQ(info.metadata.at("path"), path_);
    }
    EXPECT_TRUE(watch.source_modified());
  }
}

TEST_F(ModifyWatchTest, ATargetIsNoSource) {
  ModifyWatch watch;
  MappedShards reached;
  reached.mapped = std::shared_ptr<const MappedShards>(&shards_, [](const auto*) {});
  EXPECT_TRUE(watch.Add(reached, ModifyWatch::Side::kTarget).ok());
  ASSERT_EQ(ftruncate(trainer_, 0), 0);
  EXPECT_EQ(GetErrorInfo(watch.Check()).reason, "TARGET_MODIFIED");
  EXPECT_FALSE(watch.source_modified());
}

TEST_F(ModifyWatchTest, LentMemoryAndMemoryOfDevicesAreNotWatched) {
  const int memory = memfd_create("lent", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(memory, kWatchedBytes), 0);
  ASSERT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  MappedShards lent;
  lent.files.push_back(*MappedFile::OfMemory(memory, kWatchedBytes));
  lent.files.emplace_back();  // stands for a segment
  ModifyWatch watch;
  EXPECT_TRUE(watch.Add(lent, ModifyWatch::Side::kSource).ok());
  EXPECT_EQ(fallocate(memory, kPunchHole, 0, 4096), 0);
  close(memory);
  EXPECT_TRUE(watch.Check().ok()) << watch.Check();
}

// Regression: changes went unseen.
TEST_F(ModifyWatchTest, NoInstanceLeftIsAnErrorThatNamesTheLimit) {
  auto no_more = std::make_optional<NoMoreFiles>();
  ModifyWatch watch;
  no_more.reset();
  const absl::Status status = watch.Add(shards_, ModifyWatch::Side::kSource);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  const ErrorInfo info = GetErrorInfo(status);
  EXPECT_EQ(info.reason, "WATCHES_EXHAUSTED");
  EXPECT_EQ(info.metadata.at("limit"), "fs.inotify.max_user_instances");
  EXPECT_EQ(info.metadata.at("path"), path_);
  MappedShards in_no_file;
  in_no_file.files.emplace_back();
  EXPECT_TRUE(watch.Add(in_no_file, ModifyWatch::Side::kSource).ok()) << "it needs no watch";
  EXPECT_TRUE(watch.Check().ok());
}

// More than the kernel keeps.
TEST_F(ModifyWatchTest, AQueueThatOverflowsIsNoCalm) {
  const std::string other = directory_ + "/b";
  ASSERT_TRUE(CreateReservedFile(other, kWatchedBytes).ok());
  shards_.files.push_back(*MappedFile::Open(other, kWatchedBytes));
  ModifyWatch watch;
  EXPECT_TRUE(watch.Add(shards_, ModifyWatch::Side::kSource).ok());
  const int second = open(other.c_str(), O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 20000; ++i) {  // fs.inotify.max_queued_events is 16384
    ASSERT_EQ(pwrite(trainer_, "x", 1, 0), 1);
    ASSERT_EQ(pwrite(second, "x", 1, 0), 1);
  }
  close(second);
  EXPECT_EQ(GetErrorInfo(watch.Check()).reason, "SOURCE_MODIFIED");
}

}  // namespace
}  // namespace remesh::worker
