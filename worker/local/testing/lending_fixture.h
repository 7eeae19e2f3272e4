// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strand.h"
#include "worker/local/lending.h"
#include "worker/local/state_buffers.h"

namespace remesh::worker {

inline constexpr char kLentState[] = "jobs/a/states/lent";
inline constexpr char kLentExecution[] = "jobs/a/executions/1";  // while moving_
inline constexpr int64_t kShardBytes = 12;

// A state of 24 bytes on two devices.
inline v1::Assignment TwoShards() {
  v1::Assignment assignment;
  assignment.set_state(kLentState);
  assignment.set_state_uid("uid");
  assignment.set_generation(1);
  auto* array = assignment.add_arrays();
  array->set_name("w");
  array->add_shape(2 * kShardBytes);
  array->set_element_type("u8");
  for (int d = 0; d < 2; ++d) {
    auto* shard = assignment.add_shards();
    shard->set_device(10 + d);
    shard->set_local_device(d);
    shard->mutable_box()->add_lo(kShardBytes * d);
    shard->mutable_box()->add_hi(kShardBytes * (d + 1));
  }
  return assignment;
}

// Lends to a worker's store, as a trainer does.
class LendingTest : public ::testing::Test {
 protected:
  LendingTest() {
    std::string path = ::testing::TempDir() + "/remesh_lending.XXXXXX";
    directory_ = mkdtemp(path.data());
    cgroup_ = directory_ + "_cgroup";  // no limit, unless a test writes one
    Open(nullptr);
  }
  // A worker to which the planner has reported TwoShards().
  void Open(DeviceSegments* segments) {
    Start(segments);
    buffers_->Assign(TwoShards());
  }
  // A worker to which the planner has reported nothing yet.
  void Start(DeviceSegments* segments = nullptr) {
    store_ = *BufferStore::Open({.directory = directory_,
                                 .boot_id = "boot",
                                 .devices = 2,
                                 .cgroup_root = cgroup_,
                                 .segments = segments,
                                 .handles = &handles_});
    buffers_ = std::make_unique<StateBuffers>(
        "host-a", store_.get(), &queue_, &loan_queue_,
        StateBuffers::Hooks{
            .moved_by = [this](const std::string&) { return moving_ ? kLentExecution : ""; },
            .changed = [this](const v1::StateManifest& manifest) { changes_.push_back(manifest); },
            .reserved = [](const std::string&, const absl::Status&) {}});
  }
  ~LendingTest() override {
    std::filesystem::remove_all(directory_);
    std::filesystem::remove_all(cgroup_);
  }

  // A trainer's memory that begins with these bytes.
  static Fd Memory(const std::string& bytes, int64_t size = 64, int seals = F_SEAL_SHRINK) {
    Fd fd(memfd_create("trainer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(fd.get(), size), 0);
    EXPECT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    if (seals != 0) {
      EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    }
    return fd;
  }
  // Limits the worker's memory, by default to 150 bytes more than it uses.
  void LimitMemory(int64_t left = 150) {
    std::filesystem::create_directories(cgroup_ + "/memory");
    for (const char* file : {"/memory.max", "/memory/memory.limit_in_bytes"}) {
      std::ofstream(cgroup_ + file) << 850 + left << "\n";
    }
    for (const char* file : {"/memory.current", "/memory/memory.usage_in_bytes"}) {
      std::ofstream(cgroup_ + file) << "850\n";
    }
  }
  // Both shards in one memory: "w" of device 10 at 0, of 11 at 16.
  v1::LendRequest Request(Fd memory, int64_t bytes = 64) {
    v1::LendRequest request;
    request.set_state(kLentState);
    auto* lent = request.add_memories();
    lent->set_token(handles_.Bring(std::move(memory), getuid(), absl::Now()));
    lent->set_bytes(bytes);
    lent->set_kind("host");
    for (int d = 0; d < 2; ++d) {
      auto* shard = request.add_shards();
      shard->set_array("w");
      shard->set_device(10 + d);
      shard->set_offset(16 * d);
    }
    return request;
  }
  // Waits until everything on the strands has run.
  void Settle() {
    for (Strand* const strand : {&files_, &loans_, &strand_, &loans_}) {
      absl::Notification done;
      strand->Post([&] { done.Notify(); });
      done.WaitForNotification();
    }
  }
  absl::StatusOr<v1::SealResponse> Lend(const v1::LendRequest& request, uid_t lender = getuid()) {
    Outcome<v1::SealResponse> now = absl::UnknownError("not run"), later = now;
    strand_.Post([&] {
      now = buffers_->Lend(request, lender, [&](auto lent) { later = std::move(lent); });
    });
    absl::Notification asked;
    strand_.Post([&] { asked.Notify(); });
    asked.WaitForNotification();
    Settle();
    const bool opens = Awaits(now.awaited(), Awaited::What::kOpening);
    return (opens ? std::move(later) : std::move(now)).Now();
  }
  static bool Awaits(const std::optional<Awaited>& awaited, Awaited::What what) {
    return awaited && awaited->what == what;
  }
  absl::Status Refusal(const v1::LendRequest& request) { return Lend(request).status(); }

  std::string directory_, cgroup_;
  HandleTable handles_;
  Strand strand_, files_, loans_;
  FilesQueue queue_{&strand_, &files_};
  FilesQueue loan_queue_{&strand_, &loans_};
  std::unique_ptr<BufferStore> store_;
  bool moving_ = false;
  std::vector<v1::StateManifest> changes_;
  std::unique_ptr<StateBuffers> buffers_;
};

}  // namespace remesh::worker
