// SPDX-License-Identifier: Apache-2.0
// What must still work when the buffers' file system has no byte left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "worker/files/durable_file.h"
#include "worker/store/buffer_store.h"
#include "worker/store/write_name.h"

namespace remesh::worker {
namespace {

constexpr int kCannotMount = 77;
constexpr char kFullState[] = "jobs/a/states/b";

// A small tmpfs on `directory` that only this process sees.
bool MountSmall(const char* directory, const char* options = "size=256k") {
  const uid_t user = getuid(), group = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  return mount("none", directory, "tmpfs", 0, options) == 0;
}

// Fills the file system until a new file has no room for even one byte.
bool Fill(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  while (write(fd, block.data(), block.size()) > 0) continue;
  close(fd);
  std::ofstream(path + ".more") << "x" << std::flush;
  return std::filesystem::file_size(path + ".more") == 0;
}

bool Fine(const char* what, const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  return status.ok();
}

bool WriteEpoch(const std::string& path, uint64_t epoch) {
  worker::AgentRecord record;
  record.set_highest_epoch(epoch);
  if (!Fine("epoch", WriteDurably(path, record))) return false;
  worker::AgentRecord read;
  return Fine("read", ReadDurable(path, read)) && read.highest_epoch() == epoch;
}

v1::Assignment OneShard(int64_t generation) {
  v1::Assignment assignment;
  assignment.set_state(kFullState);
  assignment.set_generation(generation);
  auto* array = assignment.add_arrays();
  array->set_name("w");
  array->add_shape(6);
  array->set_element_type("f32");
  auto* shard = assignment.add_shards();
  shard->mutable_box()->add_lo(0);
  shard->mutable_box()->add_hi(6);
  return assignment;
}

// The exit code of the process with the small tmpfs.
int LiveOnAFullFileSystem(const std::string& directory) {
  if (!MountSmall(directory.c_str())) return kCannotMount;
  const std::string record = directory + "/agent";
  auto store = BufferStore::Open({directory, 0, "boot", 1});
  if (!Fine("open", store.status()) || !Fine("reserve", ReserveWrites(record, 256))) return 1;
  if (!Fine("build", (*store)->Create(OneShard(1), v1::SHARD_PHASE_BUILDING))) return 1;
  if (!Fine("prepare", (*store)->Create(OneShard(2), v1::SHARD_PHASE_PREPARED))) return 1;
  if (!Fill(directory + "/filler")) return 2;
  for (uint64_t epoch = 1; epoch < 20; ++epoch) {
    if (!WriteEpoch(record, epoch)) return 3;
    const std::string write(epoch % 2 == 1 ? kWriteBytesMax : 0, 'x');
    if (!Fine("seal", (*store)->SetSealed(kFullState, 1, {0}, epoch % 2 == 1, write))) return 4;
  }
  if (!Fine("modified", (*store)->NoteModified(kFullState, 1))) return 8;
  for (const v1::ShardPhase phase : {v1::SHARD_PHASE_VERIFIED, v1::SHARD_PHASE_READY}) {
    if (!Fine("phase", (*store)->SetPhase(kFullState, 2, phase))) return 5;
  }
  store->reset();
  store = BufferStore::Open({directory, 0, "boot", 1});
  if (!Fine("open again", store.status()) || (*store)->List().size() != 2) return 6;
  return Fine("reserve again", ReserveWrites(record, 256)) && WriteEpoch(record, 20) ? 0 : 7;
}

// Fills the file system until it has no room for one more folder.
void FillFolders(const std::string& folder) {
  std::error_code error;
  for (int i = 0; !error; ++i)
    std::filesystem::create_directories(folder + std::to_string(i), error);
}

// An earlier life ended while it removed a generation, and left another that cannot be read.
int AdoptOnAFullFileSystem(const std::string& directory) {
  if (!MountSmall(directory.c_str(), "size=256k,nr_inodes=64")) return kCannotMount;
  auto store = BufferStore::Open({directory, 0, "boot", 1});
  if (!Fine("open", store.status())) return 1;
  if (!Fine("build", (*store)->Create(OneShard(1), v1::SHARD_PHASE_BUILDING))) return 1;
  const std::string folder = (*store)->Find(kFullState, 1)->folder;
  store->reset();
  std::filesystem::rename(folder, folder + "x");  // its manifest belongs elsewhere
  FillFolders(directory + "/.trash7/");
  store = BufferStore::Open({directory, 0, "boot", 1});
  if (!Fine("open again", store.status()) || (*store)->notes().size() != 1) return 2;
  const std::string note = (*store)->notes()[0];
  if (note.starts_with("set ")) return 0;
  std::fprintf(stderr, "%s\n", note.c_str());
  return 3;
}

// Runs `live` in a process of its own on an empty folder.
void Live(int (*live)(const std::string& directory)) {
  std::string directory = ::testing::TempDir() + "/remesh_full.XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(live(directory));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  std::filesystem::remove_all(directory);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "this user may not mount a tmpfs";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(FullFileSystemTest, EpochsSealsAndCommitsAreStillWritten) { Live(LiveOnAFullFileSystem); }

TEST(FullFileSystemTest, WhatTheLastLifeWasRemovingMakesRoomToSetOthersAside) {
  Live(AdoptOnAFullFileSystem);
}

}  // namespace
}  // namespace remesh::worker
