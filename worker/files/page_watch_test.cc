// SPDX-License-Identifier: Apache-2.0
#include "worker/files/page_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "worker/device/testing/test_device.h"
#include "worker/files/buffer_file.h"
#include "worker/files/testing/tmpfs_directory.h"

namespace remesh::worker {
namespace {

constexpr int64_t kPageFileBytes = 3 * 4096;

class PageWatchTest : public ::testing::Test {
 protected:
  PageWatchTest() : directory_(NewTmpfsDirectory("remesh_pages")), path_(directory_ + "/a") {
    EXPECT_TRUE(CreateReservedFile(path_, kPageFileBytes).ok());
    file_ = *MappedFile::Open(path_, kPageFileBytes);
  }
  ~PageWatchTest() override { std::filesystem::remove_all(directory_); }

  // How often the file is registered for a device that wants to reach it.
  int Registrations() {
    const int before = device_.registered;
    const auto address = file_.ReachedBy(device_);
    EXPECT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->get(), file_.bytes().data());
    return device_.registered - before;
  }

  const std::string directory_;
  const std::string path_;
  TestDevice device_{[] {}};
  MappedFile file_;
};

TEST_F(PageWatchTest, AFileIsRegisteredOnceWhoeverStoresIntoIt) {
  EXPECT_EQ(Registrations(), 1);
  auto trainer = MappedFile::Open(path_, kPageFileBytes);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  trainer->bytes()[0] = std::byte{1};
  file_.bytes()[1] = std::byte{1};
  EXPECT_EQ(Registrations(), 0);
}

TEST_F(PageWatchTest, AFileThatMovesStaysRegistered) {
  EXPECT_EQ(Registrations(), 1);
  ASSERT_TRUE(file_.Move(path_, directory_ + "/b").ok());
  MappedFile moved = std::move(file_);
  file_ = std::move(moved);
  EXPECT_EQ(Registrations(), 0);
}

TEST_F(PageWatchTest, AFileThatMayHaveOtherPagesIsRegisteredAgain) {
  EXPECT_EQ(Registrations(), 1);
  ASSERT_EQ(truncate(path_.c_str(), 4096), 0);
  ASSERT_EQ(truncate(path_.c_str(), kPageFileBytes), 0);
  EXPECT_EQ(Registrations(), 1) << "cut";
  const int trainer = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(trainer, 0);
  EXPECT_EQ(Registrations(), 0) << "opened";
  ASSERT_EQ(fallocate(trainer, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  EXPECT_EQ(Registrations(), 1) << "a hole";
  void* const mapped =
      mmap(nullptr, kPageFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, trainer, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(Registrations(), 0) << "mapped";
  ASSERT_EQ(madvise(mapped, 4096, MADV_REMOVE), 0);
  EXPECT_EQ(Registrations(), 1) << "a hole through a mapping";
  munmap(mapped, kPageFileBytes);
  close(trainer);
  EXPECT_EQ(Registrations(), 0);
}

TEST_F(PageWatchTest, EveryDeviceRegistersItOnce) {
  TestDevice other([] {});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(file_.ReachedBy(device_).ok());
    EXPECT_TRUE(file_.ReachedBy(other).ok());
  }
  EXPECT_EQ(device_.registered, 1);
  EXPECT_EQ(other.registered, 1);
}

TEST_F(PageWatchTest, ScratchThatIsUsedAgainStaysRegistered) {
  file_ = *MappedFile::CreateScratch(directory_, kPageFileBytes);
  EXPECT_EQ(Registrations(), 1);
  EXPECT_EQ(Registrations(), 0);
}

TEST_F(PageWatchTest, LentMemoryIsRegisteredForEachMove) {
  const int memory = memfd_create("lent", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(memory, kPageFileBytes), 0);
  ASSERT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  file_ = *MappedFile::OfMemory(memory, kPageFileBytes);
  close(memory);
  EXPECT_EQ(Registrations(), 1);
  EXPECT_EQ(Registrations(), 1);
}

TEST_F(PageWatchTest, EveryWatchOfAFileHearsOfItsChanges) {
  PageWatch& watches = PageWatch::Get();
  const int fd = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  const auto first = watches.Watch(fd);
  ASSERT_TRUE(first);
  ASSERT_EQ(pwrite(fd, "x", 1, 0), 1);
  const auto second = watches.Watch(fd);
  ASSERT_TRUE(second);
  EXPECT_FALSE(watches.TakeChanged(*second)) << "it happened before";
  EXPECT_TRUE(watches.TakeChanged(*first));
  EXPECT_FALSE(watches.TakeChanged(*first));
  watches.End(*first);
  ASSERT_EQ(pwrite(fd, "x", 1, 0), 1);
  EXPECT_TRUE(watches.TakeChanged(*second));
  watches.End(*second);
  close(fd);
}

}  // namespace
}  // namespace remesh::worker
