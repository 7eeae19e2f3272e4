// SPDX-License-Identifier: Apache-2.0
#include "worker/store/buffer_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "worker/files/huge_pages.h"
#include "worker/store/state_folder.h"

namespace remesh::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kState[] = "jobs/a/states/b";

class BufferStoreTest : public ::testing::Test {
 protected:
  BufferStoreTest() {
    std::string path = ::testing::TempDir() + "/remesh_store.XXXXXX";
    directory_ = mkdtemp(path.data());
  }
  ~BufferStoreTest() override { fs::remove_all(directory_); }

  std::unique_ptr<BufferStore> Open(int64_t limit = 0, std::string boot = "boot") {
    auto store = BufferStore::Open({directory_, limit, std::move(boot), 2});
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  // 4x6 bf16 cut by rows over two devices, and 10 s4 on device 1.
  v1::Assignment Rows(int64_t generation = 1) {
    v1::Assignment assignment;
    assignment.set_state(kState);
    assignment.set_generation(generation);
    auto* w = assignment.add_arrays();
    w->set_name("w");
    w->add_shape(4);
    w->add_shape(6);
    w->set_element_type("bf16");
    auto* n = assignment.add_arrays();
    n->set_name("n");
    n->add_shape(10);
    n->set_element_type("s4");
    AddShard(assignment, 0, 0, {0, 0}, {2, 6});
    AddShard(assignment, 0, 1, {2, 0}, {4, 6});
    AddShard(assignment, 1, 1, {1}, {10});
    return assignment;
  }

  static void AddShard(v1::Assignment& assignment, int array, int device, std::vector<int64_t> lo,
                       std::vector<int64_t> hi) {
    auto* shard = assignment.add_shards();
    shard->set_array(array);
    shard->set_device(100 + device);
    shard->set_local_device(device);
    for (int64_t i : lo) shard->mutable_box()->add_lo(i);
    for (int64_t i : hi) shard->mutable_box()->add_hi(i);
  }

  v1::AttemptId Attempt() {
    v1::AttemptId attempt;
    attempt.set_execution("jobs/a/executions/1");
    attempt.set_attempt(1);
    return attempt;
  }

  std::string directory_;
};

TEST_F(BufferStoreTest, PacksShardsAlignedIntoOneFileADevice) {
  auto store = Open();
  ASSERT_TRUE(store->Create(Rows(), v1::SHARD_PHASE_BUILDING).ok());
  const Generation* held = store->Find(kState, 1);
  ASSERT_NE(held, nullptr);
  EXPECT_THAT(held->places.files, SizeIs(2));
  EXPECT_EQ(held->places.shards[1].offset, 0);
  EXPECT_EQ(held->places.shards[2].offset, 64);
  EXPECT_EQ(held->places.shards[2].bytes, 5);
  EXPECT_EQ(fs::file_size(held->PathOf(2)), 128u);
  EXPECT_EQ(held->Summary().bytes(), 24 + 24 + 5);
  EXPECT_EQ(store->bytes(), 64 + 128);
  EXPECT_EQ(store->Create(Rows(), v1::SHARD_PHASE_BUILDING).code(),
            absl::StatusCode::kAlreadyExists);
}

TEST_F(BufferStoreTest, ALaterLifeAdoptsContentAndSeals) {
  {
    auto store = Open();
    ASSERT_TRUE(store->Create(Rows(), v1::SHARD_PHASE_BUILDING).ok());
    ASSERT_TRUE(store->SetSealed(kState, 1, {1}, true).ok());
    auto mapped = store->Map(kState, 1);
    ASSERT_TRUE(mapped.ok());
    std::memset((*mapped)->shards[1].data, 7, 24);
  }
  auto store = Open();
  const Generation* held = store->Find(kState, 1);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(held->phase(), v1::SHARD_PHASE_BUILDING);
  EXPECT_EQ(held->sealed_shards(), 1);
  EXPECT_TRUE(held->manifest.sealed(1));
  EXPECT_EQ((*store->Map(kState, 1))->shards[1].data[23], std::byte{7});
  EXPECT_EQ(store->bytes(), 64 + 128);
  ASSERT_TRUE(store->SetSealed(kState, 1, {0, 2}, true).ok());
  EXPECT_EQ(Open()->Find(kState, 1)->phase(), v1::SHARD_PHASE_READY);
}

TEST_F(BufferStoreTest, TheWriteIsKeptUntilAnExecutionWritesTheNextGeneration) {
  {
    auto store = Open();
    ASSERT_TRUE(store->Create(Rows(), v1::SHARD_PHASE_BUILDING).ok());
    EXPECT_EQ(store->Find(kState, 1)->Summary().write(), "");
    ASSERT_TRUE(store->SetSealed(kState, 1, {0}, true, "7").ok());
    ASSERT_TRUE(store->SetSealed(kState, 1, {1, 2}, true).ok());
    ASSERT_TRUE(store->Create(Rows(2), v1::SHARD_PHASE_PREPARED, Attempt()).ok());
    for (const v1::ShardPhase phase : {v1::SHARD_PHASE_VERIFIED, v1::SHARD_PHASE_READY})
      ASSERT_TRUE(store->SetPhase(kState, 2, phase).ok());
  }
  auto store = Open();
  EXPECT_EQ(store->Find(kState, 1)->Summary().write(), "7");
  EXPECT_EQ(store->Find(kState, 2)->Summary().write(), "");
}

// Regression: only the process that saw it knew.
TEST_F(BufferStoreTest, ModifiedIsKeptByLaterLivesUntilAllIsUnsealed) {
  {
    auto store = Open();
    ASSERT_TRUE(store->Create(Rows(), v1::SHARD_PHASE_BUILDING).ok());
    ASSERT_TRUE(store->SetSealed(kState, 1, {0, 1, 2}, true).ok());
  }
  auto store = Open();
  EXPECT_FALSE(store->Find(kState, 1)->modified()) << "as in manifests of earlier versions";
  EXPECT_TRUE(store->NoteModified(kState, 1).ok());
  EXPECT_TRUE(store->NoteModified(kState, 2).ok()) << "it is not here";
  store = Open();
  EXPECT_TRUE(store->Find(kState, 1)->modified());
  ASSERT_TRUE(store->SetSealed(kState, 1, {0, 2}, false).ok());
  ASSERT_TRUE(store->SetSealed(kState, 1, {0, 2}, true).ok());
  store = Open();
  EXPECT_TRUE(store->Find(kState, 1)->modified()) << "a shard was not unsealed";
  ASSERT_TRUE(store->SetSealed(kState, 1, {0, 1, 2}, false).ok());
  store = Open();
  EXPECT_FALSE(store->Find(kState, 1)->modified());
}

TEST_F(BufferStoreTest, PreparedIsDroppedByALaterLifeAndVerifiedKept) {
  {
    auto store = Open();
    ASSERT_TRUE(store->Create(Rows(2), v1::SHARD_PHASE_PREPARED, Attempt()).ok());
    ASSERT_TRUE(store->Create(Rows(3), v1::SHARD_PHASE_PREPARED, Attempt()).ok());
    ASSERT_TRUE(store->SetPhase(kState, 3, v1::SHARD_PHASE_VERIFIED).ok());
  }
  auto store = Open();
  EXPECT_EQ(store->Find(kState, 2), nullptr);
  const Generation* verified = store->Find(kState, 3);
  ASSERT_NE(verified, nullptr);
  EXPECT_EQ(verified->Summary().execution(), "jobs/a/executions/1");
  ASSERT_TRUE(store->SetPhase(kState, 3, v1::SHARD_PHASE_READY).ok());
  EXPECT_EQ(store->Find(kState, 3)->sealed_shards(), 3);
  EXPECT_TRUE(Open()->Find(kState, 3)->manifest.assignment().committed());
}

TEST_F(BufferStoreTest, BuffersOfAnotherBootAreGone) {
  ASSERT_TRUE(Open()->Create(Rows(), v1::SHARD_PHASE_BUILDING).ok());
  auto store = Open(0, "another boot");
  EXPECT_EQ(store->Find(kState, 1), nullptr);
  EXPECT_THAT(store->notes(), SizeIs(1));
}

TEST_F(BufferStoreTest, WhatDoesNotFitIsRefusedWithNothingLeftBehind) {
  auto store = Open(/*limit=*/200);
  ASSERT_TRUE(store->Create(Rows(), v1::SHARD_PHASE_BUILDING).ok());
  const absl::Status status = store->Create(Rows(2), v1::SHARD_PHASE_PREPARED, Attempt());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(status).reason, "MEMORY_EXHAUSTED");
  EXPECT_EQ(GetErrorInfo(status).metadata["needed_bytes"], "192");
  EXPECT_EQ(GetErrorInfo(status).metadata["free_bytes"], "8");
  EXPECT_EQ(store->bytes(), 192);
  store->Drop(kState, 1);
  EXPECT_EQ(store->bytes(), 0);
  EXPECT_TRUE(store->Create(Rows(2), v1::SHARD_PHASE_PREPARED, Attempt()).ok());
}

TEST_F(BufferStoreTest, AFileSystemThatIsTooSmallIsRefused) {
  auto store = Open();
  v1::Assignment huge = Rows();
  huge.mutable_arrays(1)->set_shape(0, int64_t{1} << 58);
  huge.mutable_shards(2)->mutable_box()->set_hi(0, int64_t{1} << 58);
  EXPECT_EQ(store->Create(huge, v1::SHARD_PHASE_BUILDING).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(fs::exists(directory_ + "/" + StateFolder(kState)));
}

TEST_F(BufferStoreTest, StrangeAndCorruptFoldersAreSetAside) {
  {
    auto store = Open();
    ASSERT_TRUE(store->Create(Rows(1), v1::SHARD_PHASE_BUILDING).ok());
    ASSERT_TRUE(store->Create(Rows(2), v1::SHARD_PHASE_BUILDING).ok());
    ASSERT_TRUE(store->Create(Rows(3), v1::SHARD_PHASE_BUILDING).ok());
  }
  const std::string state = directory_ + "/" + StateFolder(kState);
  fs::resize_file(state + "/1/d1.device", 10);
  std::fstream(state + "/2/manifest", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(40)
      .put('x');
  fs::create_directories(state + "/junk");
  auto store = Open();
  EXPECT_THAT(store->List(), SizeIs(1));
  EXPECT_NE(store->Find(kState, 3), nullptr);
  EXPECT_THAT(store->notes(), SizeIs(3));
  EXPECT_TRUE(fs::exists(directory_ + "/.aside"));
  EXPECT_TRUE(store->Create(Rows(1), v1::SHARD_PHASE_BUILDING).ok());
  EXPECT_TRUE(Open()->notes().empty());
}

// MoveAside() joins the names of a state's folder and of a generation's into one, which may be too
// long.
TEST_F(BufferStoreTest, FoldersWithLongNamesAreSetAside) {
  const std::string state = directory_ + "/" + std::string(250, 's');
  for (const char last : {'a', 'b'}) {
    const std::string folder = state + "/" + std::string(250, 'g') + last;
    fs::create_directories(folder);
    std::ofstream(folder + "/shard") << last;
  }
  EXPECT_THAT(Open()->notes(), AllOf(SizeIs(2), Each(HasSubstr(" aside: "))));
  EXPECT_FALSE(fs::exists(state));
  std::string kept;
  for (const auto& aside : fs::directory_iterator(directory_ + "/.aside")) {
    kept += static_cast<char>(std::ifstream(aside.path() / "shard").get());
  }
  EXPECT_THAT(kept, UnorderedElementsAre('a', 'b'));
}

TEST_F(BufferStoreTest, AGenerationIsMadeInStepsOrNotAtAll) {
  auto store = Open();
  auto begun = store->Begin(Rows(), v1::SHARD_PHASE_PREPARED, {});
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_GT(store->bytes(), 0);
  EXPECT_EQ(store->Find(kState, 1), nullptr);
  EXPECT_EQ(store->Begin(Rows(), v1::SHARD_PHASE_PREPARED, {}).status().code(),
            absl::StatusCode::kAlreadyExists);
  const std::atomic<bool> cancelled = true;
  const absl::Status filled = store->Fill(*begun, &cancelled);
  EXPECT_EQ(filled.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store->Finish(*begun, filled), filled);
  EXPECT_EQ(store->bytes(), 0);
  EXPECT_FALSE(fs::exists(begun->folder));
  ASSERT_TRUE(store->Create(Rows(), v1::SHARD_PHASE_PREPARED).ok());
}

TEST_F(BufferStoreTest, WhatALifeDidNotMakeToItsEndIsRemoved) {
  {
    auto store = Open();
    const auto begun = store->Begin(Rows(), v1::SHARD_PHASE_PREPARED, {});
    ASSERT_TRUE(store->Fill(*begun, nullptr).ok());
    fs::remove(begun->folder + "/manifest");
  }
  auto store = Open();
  EXPECT_THAT(store->notes(), SizeIs(1));
  EXPECT_FALSE(fs::exists(directory_ + "/.aside"));
  EXPECT_TRUE(store->Create(Rows(), v1::SHARD_PHASE_PREPARED).ok());
}

TEST_F(BufferStoreTest, ScratchIsCountedWhileItLives) {
  auto store = Open(/*limit=*/1000);
  auto scratch = store->ReserveScratch(900);
  ASSERT_TRUE(scratch.ok());
  EXPECT_EQ(store->bytes(), 900);
  EXPECT_FALSE(store->ReserveScratch(900).ok());
  scratch->reset();
  EXPECT_EQ(store->bytes(), 0);
}

TEST_F(BufferStoreTest, ScratchThatIsGivenUpIsNotCounted) {
  auto store = Open(/*limit=*/1000);
  const std::atomic<bool> cancelled = true;
  EXPECT_EQ(store->ReserveScratch(900, &cancelled).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store->bytes(), 0);
}

TEST_F(BufferStoreTest, BadAssignmentsNameTheField) {
  auto store = Open();
  v1::Assignment bad = Rows();
  bad.mutable_shards(1)->mutable_box()->set_hi(0, 5);
  const absl::Status status = store->Create(bad, v1::SHARD_PHASE_BUILDING);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shards[1].box.hi[0]"));
  bad = Rows();
  bad.mutable_shards(0)->set_local_device(2);
  EXPECT_FALSE(store->Create(bad, v1::SHARD_PHASE_BUILDING).ok());
  bad = Rows();
  bad.mutable_arrays(0)->set_element_type("bf17");
  EXPECT_FALSE(store->Create(bad, v1::SHARD_PHASE_BUILDING).ok());
}

// In memory where possible: other file systems' behaviour is not under test.
class BufferFileTest : public ::testing::TestWithParam<int64_t> {
 protected:
  BufferFileTest() {
    std::string path = "/dev/shm/remesh_file.XXXXXX";
    directory_ = mkdtemp(path.data());
  }
  ~BufferFileTest() override { fs::remove_all(directory_); }

  std::string directory_;
};

TEST_P(BufferFileTest, EveryByteIsThereAndZero) {
  const std::string path = directory_ + "/file";
  ASSERT_TRUE(CreateReservedFile(path, GetParam()).ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, GetParam());
  EXPECT_GE(info.st_blocks * 512, GetParam());
  const auto file = MappedFile::Open(path, GetParam());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(std::all_of(file->bytes().begin(), file->bytes().end(),
                          [](std::byte b) { return b == std::byte{0}; }));
  if (GetParam() >= kHugePageBytes) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file->bytes().data()) % kHugePageBytes, 0u);
  }
}

TEST_P(BufferFileTest, GivenUpNothingIsLeft) {
  const std::atomic<bool> cancelled = true;
  const absl::Status status = CreateReservedFile(directory_ + "/file", GetParam(), &cancelled);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(fs::is_empty(directory_));
}

// A pod whose limit leaves 150 bytes: if the tmpfs were filled past it, the kernel would kill a
// process, not return an error.
TEST(CgroupLimitTest, BuffersPastThePodsLimitAreRefused) {
  std::string directory = "/dev/shm/remesh_cgroup.XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string root = directory + "/cgroup";
  fs::create_directories(root + "/memory");
  for (const char* file : {"/memory.max", "/memory/memory.limit_in_bytes"})
    std::ofstream(root + file) << "1000\n";
  for (const char* file : {"/memory.current", "/memory/memory.usage_in_bytes"})
    std::ofstream(root + file) << "850\n";
  auto store = *BufferStore::Open({directory + "/buffers", 0, "boot", 1, root});
  v1::Assignment assignment;
  assignment.set_state(kState);
  assignment.set_generation(1);
  auto* array = assignment.add_arrays();
  array->set_name("w");
  array->set_element_type("u8");
  array->add_shape(151);
  assignment.add_shards()->mutable_box()->add_lo(0);
  assignment.mutable_shards(0)->mutable_box()->add_hi(151);
  for (const absl::Status& status :
       {store->Create(assignment, v1::SHARD_PHASE_BUILDING), store->ReserveScratch(151).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(GetErrorInfo(status).reason, "CGROUP_MEMORY");
    EXPECT_EQ(GetErrorInfo(status).metadata["limit_bytes"], "1000");
    EXPECT_EQ(GetErrorInfo(status).metadata["used_bytes"], "850");
  }
  EXPECT_EQ(store->bytes(), 0);
  EXPECT_TRUE(store->ReserveScratch(150).ok());
  fs::remove_all(directory);
}

INSTANTIATE_TEST_SUITE_P(Sizes, BufferFileTest,
                         ::testing::Values(1, 4097, kHugePageBytes, 3 * kHugePageBytes + 5));

TEST(StateFolderTest, NamesAreSafeAndBounded) {
  EXPECT_EQ(StateFolder("jobs/a/states/b"), "jobs%2Fa%2Fstates%2Fb");
  EXPECT_EQ(StateFolder("../x"), "%2E%2E%2Fx");
  const std::string a = StateFolder(std::string(500, '/')), b = StateFolder(std::string(501, '/'));
  EXPECT_LE(a.size(), 200u);
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace remesh::worker
