// SPDX-License-Identifier: Apache-2.0
#include "worker/store/write_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "worker/files/buffer_file.h"
#include "worker/files/testing/tmpfs_directory.h"

namespace remesh::worker {
namespace {

constexpr int64_t kFileBytes = 3 * 4096;

// The generation's files are "a" and "b"; the trainer is this process, by
// descriptors of its own.
class WriteWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"/a", "/b"}) Add(directory_ + name);
    if (!shards_.files[0].HeldByNoOther().ok()) GTEST_SKIP() << "no leases on " << directory_;
  }
  ~WriteWatchTest() override { std::filesystem::remove_all(directory_); }

  void Add(const std::string& path) {
    ASSERT_TRUE(CreateReservedFile(path, kFileBytes).ok());
    auto file = MappedFile::Open(path, kFileBytes);
    ASSERT_TRUE(file.ok()) << file.status();
    shards_.files.push_back(*std::move(file));
  }
  // Opens, writes and closes, as a trainer would.
  static void WriteTo(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0) << path;
    void* const mapped = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    *static_cast<char*>(mapped) = 'x';
    munmap(mapped, kFileBytes);
    close(fd);
  }

  std::string directory_ = NewTmpfsDirectory("remesh_watch");
  MappedShards shards_;
};

TEST_F(WriteWatchTest, NoOtherProcessWroteWhatNoneHasOpen) {
  WriteTo(directory_ + "/a");  // before the watch
  WriteWatch watch(shards_);
  shards_.files[0].bytes()[0] = std::byte{'y'};  // this process' own writes do not count
  EXPECT_TRUE(watch.NoOtherProcessWrote());
  EXPECT_TRUE(watch.NoOtherProcessWrote());
}

TEST_F(WriteWatchTest, WhoHasAFileMappedMayWrite) {
  const int fd = open((directory_ + "/b").c_str(), O_RDWR | O_CLOEXEC);
  void* const mapped = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  close(fd);
  WriteWatch watch(shards_);
  EXPECT_FALSE(watch.NoOtherProcessWrote());
  munmap(mapped, kFileBytes);
  EXPECT_FALSE(watch.NoOtherProcessWrote()) << "it may have written before";
  EXPECT_TRUE(WriteWatch(shards_).NoOtherProcessWrote());
}

TEST_F(WriteWatchTest, WhoOpensAFileLaterMayWrite) {
  WriteWatch watch(shards_);
  WriteTo(directory_ + "/b");
  EXPECT_FALSE(watch.NoOtherProcessWrote());
  EXPECT_FALSE(watch.NoOtherProcessWrote());
}

TEST_F(WriteWatchTest, EveryNameOfAFileCounts) {
  ASSERT_EQ(link((directory_ + "/a").c_str(), (directory_ + "/other").c_str()), 0);
  const std::string moved = directory_ + ".moved";
  ASSERT_EQ(rename(directory_.c_str(), moved.c_str()), 0);
  directory_ = moved;
  WriteWatch by_link(shards_);
  WriteTo(moved + "/other");
  EXPECT_FALSE(by_link.NoOtherProcessWrote());
  WriteWatch by_name(shards_);
  WriteTo(moved + "/a");
  EXPECT_FALSE(by_name.NoOtherProcessWrote());
}

TEST_F(WriteWatchTest, APathThatWasOpenedWithoutAccessMayBeOpenedAgain) {
  const int path = open((directory_ + "/a").c_str(), O_PATH | O_CLOEXEC);
  ASSERT_GE(path, 0);
  WriteWatch watch(shards_);
  WriteTo("/proc/self/fd/" + std::to_string(path));
  close(path);
  EXPECT_FALSE(watch.NoOtherProcessWrote());
}

TEST_F(WriteWatchTest, WhoCutsAFileHasWritten) {
  WriteWatch watch(shards_);
  ASSERT_EQ(truncate((directory_ + "/a").c_str(), 4096), 0);
  ASSERT_EQ(truncate((directory_ + "/a").c_str(), kFileBytes), 0);
  EXPECT_FALSE(watch.NoOtherProcessWrote());
}

TEST_F(WriteWatchTest, ShardsThatDevicesReachAreThoseBehind) {
  MappedShards reached;
  reached.mapped = std::shared_ptr<const MappedShards>(&shards_, [](const auto*) {});
  WriteWatch watch(reached);
  EXPECT_TRUE(watch.NoOtherProcessWrote());
  WriteTo(directory_ + "/a");
  EXPECT_FALSE(watch.NoOtherProcessWrote());
}

TEST_F(WriteWatchTest, NothingIsCertainOfMemoryThatIsInNoFile) {
  const int memory = memfd_create("lent", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(memory, kFileBytes), 0);
  ASSERT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  MappedShards lent;
  lent.files.push_back(*MappedFile::OfMemory(memory, kFileBytes));
  close(memory);
  EXPECT_FALSE(WriteWatch(lent).NoOtherProcessWrote());
  EXPECT_FALSE(WriteWatch(MappedShards()).NoOtherProcessWrote());
  shards_.on_device = {nullptr, std::make_shared<std::byte>()};
  EXPECT_FALSE(WriteWatch(shards_).NoOtherProcessWrote());
}

}  // namespace
}  // namespace remesh::worker
