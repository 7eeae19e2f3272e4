// SPDX-License-Identifier: Apache-2.0
#include "worker/store/buffer_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "worker/files/testing/tmpfs_directory.h"
#include "worker/store/buffer_store.h"

namespace remesh::worker {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kElements = 3 * 4096 + 5;  // of s4: the last byte is half full

class BufferPoolTest : public ::testing::Test {
 protected:
  static constexpr char kState[] = "jobs/a/states/b";

  BufferPoolTest() : directory_(NewTmpfsDirectory("remesh_pool")), store_(Open()) {}
  ~BufferPoolTest() override { fs::remove_all(directory_); }

  std::unique_ptr<BufferStore> Open(int64_t limit = 0) {
    auto store = BufferStore::Open({.directory = directory_,
                                    .memory_limit_bytes = limit,
                                    .boot_id = "boot",
                                    .devices = 1,
                                    .recycle_idle = recycle_idle_,
                                    .now = [this] { return now_; }});
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  static v1::Assignment Whole(int64_t generation, const std::string& uid = "uid",
                              int64_t elements = kElements) {
    v1::Assignment assignment;
    assignment.set_state(kState);
    assignment.set_state_uid(uid);
    assignment.set_generation(generation);
    for (const char* name : {"w", "v"}) {
      auto& array = *assignment.add_arrays();
      array.set_name(name);
      array.add_shape(elements);
      array.set_element_type("s4");
      auto& shard = *assignment.add_shards();
      shard.set_array(assignment.arrays_size() - 1);
      shard.set_device(7);
      shard.mutable_box()->add_lo(0);
      shard.mutable_box()->add_hi(elements);
    }
    return assignment;
  }

  // A generation as an execution leaves it: mapped, filled with `byte`, readable.
  std::shared_ptr<const MappedShards> Written(int64_t generation, char byte,
                                              const std::string& uid = "uid") {
    const absl::Status made = store_->Create(Whole(generation, uid), v1::SHARD_PHASE_PREPARED);
    EXPECT_TRUE(made.ok()) << made;
    auto mapped = store_->Map(kState, generation);
    EXPECT_TRUE(mapped.ok()) << mapped.status();
    for (const ShardView& shard : (*mapped)->shards) std::memset(shard.data, byte, shard.bytes());
    for (const auto phase : {v1::SHARD_PHASE_VERIFIED, v1::SHARD_PHASE_READY})
      EXPECT_TRUE(store_->SetPhase(kState, generation, phase).ok());
    return *mapped;
  }

  ino_t Inode(int64_t generation) {
    struct stat info {};
    EXPECT_EQ(stat(store_->Find(kState, generation)->PathOf(0).c_str(), &info), 0);
    return info.st_ino;
  }

  bool AllZero(int64_t generation) {
    auto mapped = store_->Map(kState, generation);
    const auto bytes = (*mapped)->files[0].bytes();
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  }

  bool leases() const { return store_->recycling().no_lease_support == 0; }

  std::string directory_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
  absl::Duration recycle_idle_ = absl::Seconds(60);
  std::unique_ptr<BufferStore> store_;
};

TEST_F(BufferPoolTest, TheNextGenerationHasThePagesOfTheRetiredOne) {
  Written(1, 'x');
  const ino_t before = Inode(1);
  store_->Recycle(kState, 1);
  EXPECT_EQ(store_->Find(kState, 1), nullptr);
  EXPECT_EQ(store_->bytes(), 0);
  ASSERT_TRUE(store_->Create(Whole(2), v1::SHARD_PHASE_PREPARED).ok());
  if (!leases()) GTEST_SKIP() << "no leases on " << directory_;
  EXPECT_EQ(Inode(2), before);
  EXPECT_EQ(store_->recycling().recycled, 1);
  // What belongs to no element is zero.
  auto mapped = store_->Map(kState, 2);
  ASSERT_TRUE(mapped.ok());
  const auto bytes = (*mapped)->files[0].bytes();
  const int64_t first = (*mapped)->shards[0].bytes();
  const ptrdiff_t second = (*mapped)->shards[1].data - bytes.data();
  EXPECT_EQ(bytes[first - 1], std::byte{0});
  for (ptrdiff_t i = first; i < second; ++i) EXPECT_EQ(bytes[i], std::byte{0}) << i;
  EXPECT_EQ((*mapped)->shards[0].data[0], std::byte{'x'}) << "the pages are those of before";
}

TEST_F(BufferPoolTest, ATrainerKeepsTheBytesThatItMapsForAsLongAsItLikes) {
  const int64_t bytes = Written(1, 'x')->files[0].bytes().size();
  const int fd = open(store_->Find(kState, 1)->PathOf(0).c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  const char* trainer =
      static_cast<const char*>(mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0));
  ASSERT_NE(trainer, MAP_FAILED);
  close(fd);
  for (int64_t generation = 2; generation < 5; ++generation) {
    store_->Recycle(kState, generation - 1);
    Written(generation, static_cast<char>('a' + generation));
    for (int64_t i = 0; i < kElements / 2; ++i) ASSERT_EQ(trainer[i], 'x') << generation;
  }
  EXPECT_EQ(store_->recycling().still_mapped, leases() ? 1 : 0);
  EXPECT_EQ(store_->recycling().recycled, leases() ? 2 : 0)
      << "of generations that no process maps";
  munmap(const_cast<char*>(trainer), bytes);
}

TEST_F(BufferPoolTest, NothingIsTakenFromAThreadThatStillReads) {
  const auto reader = Written(1, 'x');
  store_->Recycle(kState, 1);
  Written(2, 'y');
  EXPECT_EQ(store_->recycling().recycled, 0);
  EXPECT_EQ(reader->shards[0].data[0], std::byte{'x'});
}

TEST_F(BufferPoolTest, AnotherStateOfTheNameNeverSeesThem) {
  Written(1, 'x');
  store_->Recycle(kState, 1);
  ASSERT_TRUE(store_->Create(Whole(1, "another"), v1::SHARD_PHASE_PREPARED).ok());
  EXPECT_TRUE(AllZero(1));
}

TEST_F(BufferPoolTest, WhatTrainersBuildIsZero) {
  Written(1, 'x');
  store_->Recycle(kState, 1);
  ASSERT_TRUE(store_->Create(Whole(2), v1::SHARD_PHASE_BUILDING).ok());
  EXPECT_TRUE(AllZero(2));
}

TEST_F(BufferPoolTest, WhatATrainerCutShortIsNotTaken) {
  Written(1, 'x');
  ASSERT_EQ(truncate(store_->Find(kState, 1)->PathOf(0).c_str(), 10), 0);
  store_->Recycle(kState, 1);
  ASSERT_TRUE(store_->Create(Whole(2), v1::SHARD_PHASE_PREPARED).ok());
  EXPECT_TRUE(AllZero(2));
  EXPECT_EQ(store_->recycling().recycled, 0);
}

TEST_F(BufferPoolTest, MemoryOfAnotherSizeIsNew) {
  Written(1, 'x');
  store_->Recycle(kState, 1);
  ASSERT_TRUE(store_->Create(Whole(2, "uid", 9 * 4096), v1::SHARD_PHASE_PREPARED).ok());
  EXPECT_TRUE(AllZero(2));
}

TEST_F(BufferPoolTest, KeptMemoryGoesWhenItIsInTheWayOrIdle) {
  const int64_t bytes = Written(1, 'x')->files[0].bytes().size();
  store_ = Open(bytes + bytes / 2);
  ASSERT_TRUE(store_->Map(kState, 1).ok());
  store_->Recycle(kState, 1);
  EXPECT_FALSE(fs::is_empty(directory_ + "/.pool"));
  EXPECT_TRUE(store_->Create(Whole(1, "another"), v1::SHARD_PHASE_BUILDING).ok());
  EXPECT_TRUE(fs::is_empty(directory_ + "/.pool"));
  ASSERT_TRUE(store_->Map(kState, 1).ok());
  store_->Recycle(kState, 1);
  now_ += absl::Seconds(50);
  store_->TrimPool();
  EXPECT_FALSE(fs::is_empty(directory_ + "/.pool"));
  now_ += absl::Seconds(20);
  store_->TrimPool();
  EXPECT_TRUE(fs::is_empty(directory_ + "/.pool"));
}

TEST_F(BufferPoolTest, WhatWasKeptOfAForgottenStateGoes) {
  Written(1, 'x');
  store_->Recycle(kState, 1);
  store_->ForgetKept("another");
  EXPECT_FALSE(fs::is_empty(directory_ + "/.pool"));
  store_->ForgetKept("uid");
  EXPECT_TRUE(fs::is_empty(directory_ + "/.pool"));
}

// A second name for a generation's file would show the next one's bytes.
TEST_F(BufferPoolTest, AFileWithAnotherLinkKeepsItsBytes) {
  Written(1, 'x');
  const std::string link = directory_ + ".link";
  ASSERT_EQ(::link(store_->Find(kState, 1)->PathOf(0).c_str(), link.c_str()), 0);
  store_->Recycle(kState, 1);
  Written(2, 'y');
  EXPECT_EQ(store_->recycling().recycled, 0);
  std::ifstream kept(link);
  EXPECT_EQ(kept.get(), 'x');
  fs::remove(link);
}

TEST_F(BufferPoolTest, WhatWasPutInAFilesPlaceIsNeitherMappedNorTaken) {
  Written(1, 'x');
  const std::string path = store_->Find(kState, 1)->PathOf(0);
  fs::copy_file(path, path + ".other");
  std::fstream(path + ".other", std::ios::in | std::ios::out) << 'z';
  fs::rename(path + ".other", path);
  EXPECT_EQ((*store_->Map(kState, 1))->shards[0].data[0], std::byte{'z'}) << "what readers see";
  Written(2, 'y');
  const std::string second = store_->Find(kState, 2)->PathOf(0);
  fs::copy_file(second, second + ".other");
  fs::rename(second + ".other", second);
  store_->Recycle(kState, 2);
  ASSERT_TRUE(store_->Create(Whole(3), v1::SHARD_PHASE_PREPARED).ok());
  EXPECT_TRUE(AllZero(3));
  EXPECT_EQ(store_->recycling().recycled, 0);
}

TEST_F(BufferPoolTest, AFileThatATrainerMadeLongerIsNotTaken) {
  Written(1, 'x');
  const std::string path = store_->Find(kState, 1)->PathOf(0);
  fs::resize_file(path, fs::file_size(path) + 4096);
  store_->Recycle(kState, 1);
  ASSERT_TRUE(store_->Create(Whole(2), v1::SHARD_PHASE_PREPARED).ok());
  EXPECT_TRUE(AllZero(2));
}

TEST_F(BufferPoolTest, ItCanBeSwitchedOff) {
  recycle_idle_ = absl::ZeroDuration();
  store_ = Open();
  Written(1, 'x');
  store_->Recycle(kState, 1);
  EXPECT_FALSE(fs::exists(directory_ + "/.pool"));
  Written(2, 'y');
  EXPECT_EQ(store_->recycling().recycled, 0);
}

// A worker that is killed at any moment of recycling leaves whole generations, or none.
TEST_F(BufferPoolTest, AKillAtAnyMomentLeavesNoHalf) {
  int found = 0;
  for (int round = 0; round < 30; ++round) {
    store_ = nullptr;
    const pid_t child = fork();
    if (child == 0) {
      store_ = Open();
      int64_t next = 1;
      for (const Generation* held : store_->ListOf(kState)) next = held->number() + 1;
      for (;; ++next) {
        Written(next, static_cast<char>(next));
        store_->Recycle(kState, next - 1);
      }
    }
    usleep(2000 + 700 * round);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    store_ = Open();
    for (const Generation* held : store_->ListOf(kState)) {
      if (held->phase() != v1::SHARD_PHASE_READY) continue;
      auto mapped = store_->Map(kState, held->number());
      ASSERT_TRUE(mapped.ok()) << mapped.status();
      const ShardView& shard = (*mapped)->shards[1];
      for (int64_t i = 0; i < kElements / 2; ++i)
        ASSERT_EQ(shard.data[i], static_cast<std::byte>(held->number())) << i;
      ++found;
    }
    EXPECT_FALSE(fs::exists(directory_ + "/.aside"));
    EXPECT_FALSE(fs::exists(directory_ + "/.pool"));
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace remesh::worker
