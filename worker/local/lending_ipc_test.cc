// SPDX-License-Identifier: Apache-2.0
// Memory of devices that a trainer lends by its IPC handle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "worker/device/testing/sim_device.h"
#include "worker/device/testing/sim_lender.h"
#include "worker/local/testing/lending_fixture.h"

namespace remesh::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kAllocationBytes = 8192;
constexpr int64_t kSecondPart = 4096;

// A trainer's allocation on "sim:0", which another process owns; both shards are on that device.
class IpcLendingTest : public LendingTest {
 protected:
  IpcLendingTest() {
    std::vector<Device*> devices;
    for (const char* name : {"sim:0", "sim:1"}) {
      devices_.push_back(std::make_unique<SimDevice>(SimOptions{.device = name}, [] {}));
      devices.push_back(devices_.back().get());
    }
    segments_ = std::make_unique<DeviceSegments>(LocalDevices(devices), nullptr, &handles_);
    Open(segments_.get());
    v1::Assignment assignment = TwoShards();
    assignment.mutable_shards(1)->set_local_device(0);
    buffers_->Assign(assignment);
  }
  ~IpcLendingTest() override {
    buffers_ = nullptr;
    store_ = nullptr;
    Settle();
  }

  static std::string Content() {
    std::string content(kAllocationBytes, '.');
    content.replace(0, kShardBytes, "aaaaaaaaaaaa");
    content.replace(kSecondPart + 16, kShardBytes, "bbbbbbbbbbbb");
    return content;
  }
  // Places each shard in its own part of the allocation.
  v1::LendRequest InTwoParts() {
    v1::LendRequest request;
    request.set_state(kLentState);
    request.set_lease(lease_);
    for (int i = 0; i < 2; ++i) {
      v1::LentMemory& memory = *request.add_memories();
      memory.mutable_ipc()->set_handle(lender_.handle());
      memory.mutable_ipc()->set_bytes(kAllocationBytes);
      memory.mutable_ipc()->set_offset(kSecondPart * i);
      memory.set_bytes(kSecondPart);
      memory.set_kind("sim");
      memory.set_device_uuid("sim:0");
      v1::LentShard& shard = *request.add_shards();
      shard.set_array("w");
      shard.set_device(10 + i);
      shard.set_memory(i);
      shard.set_offset(16 * i);
    }
    return request;
  }
  void ExpectRefused(const std::function<void(v1::LendRequest&)>& change, const std::string& what) {
    v1::LendRequest request = InTwoParts();
    change(request);
    const absl::Status refused = Refusal(request);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(what));
    EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
    EXPECT_EQ(handles_.leases().Held(lease_), false);
  }

  std::vector<std::unique_ptr<SimDevice>> devices_;
  std::unique_ptr<DeviceSegments> segments_;
  SimLender lender_{"sim:0", Content()};
  std::string lease_ = *handles_.leases().Begin(getuid());
};

TEST_F(IpcLendingTest, AnAllocationIsOpenedOnceForAllItsParts) {
  const auto lent = Lend(InTwoParts());
  ASSERT_TRUE(lent.ok()) << lent.status();
  EXPECT_EQ(lent->sealed_shards(), 2);
  const auto mapped = store_->Map(kLentState, 1);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(*SimMemory::Behind((*mapped)->shards[0].data), std::byte{'a'});
  EXPECT_EQ(*SimMemory::Behind((*mapped)->shards[1].data), std::byte{'b'});
  EXPECT_EQ((*mapped)->on_device[1].get() - (*mapped)->on_device[0].get(), kSecondPart);
  EXPECT_EQ(devices_[0]->most_bytes(), kAllocationBytes);
}

TEST_F(IpcLendingTest, WhatIsGivenBackIsClosedWhenTheLastReaderIsGone) {
  ASSERT_TRUE(Lend(InTwoParts()).ok());
  auto reader = *store_->Map(kLentState, 1);
  v1::UnsealRequest unseal;
  unseal.set_state(kLentState);
  ASSERT_TRUE(buffers_->Unseal(unseal).ok());
  EXPECT_EQ(handles_.leases().Held(lease_), true);
  const std::weak_ptr<std::byte> memory = reader->on_device[0];
  reader = nullptr;
  Settle();
  EXPECT_TRUE(memory.expired());
  EXPECT_EQ(handles_.leases().Held(lease_), false);
  EXPECT_TRUE(Lend(InTwoParts()).ok());
}

TEST_F(IpcLendingTest, WhatWasLentIsLostWithItsLender) {
  ASSERT_TRUE(Lend(InTwoParts()).ok());
  const auto mapped = *store_->Map(kLentState, 1);
  EXPECT_FALSE(mapped->spoiled());
  buffers_->GiveLost();
  ASSERT_NE(store_->Find(kLentState, 1), nullptr);
  lender_.Die();
  handles_.leases().End(lease_);
  EXPECT_TRUE(mapped->spoiled());
  EXPECT_EQ(GetErrorInfo(mapped->CheckWhole()).reason, "SOURCE_LOST");
  EXPECT_EQ(GetErrorInfo(store_->Map(kLentState, 1).status()).reason, "SOURCE_LOST");
  buffers_->GiveLost();
  EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_BUILDING);
  EXPECT_EQ(changes_.back().sealed_shards(), 0);
}

TEST_F(IpcLendingTest, WhatIsLostStaysWhileTheStateMoves) {
  ASSERT_TRUE(Lend(InTwoParts()).ok());
  handles_.leases().End(lease_);
  moving_ = true;
  buffers_->GiveLost();
  EXPECT_NE(store_->Find(kLentState, 1), nullptr);
  EXPECT_THAT(changes_, SizeIs(1));
  moving_ = false;
  buffers_->GiveLost();
  EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
}

TEST_F(IpcLendingTest, WithoutALeaseThatStandsNothingIsOpened) {
  ExpectRefused([](auto& r) { r.set_lease(""); }, "lease");
  ExpectRefused([](auto& r) { r.set_lease("0123"); }, "lease");
  const std::string other = *handles_.leases().Begin(getuid());
  handles_.leases().End(other);
  ExpectRefused([&](auto& r) { r.set_lease(other); }, "by a connection that stands");
}

TEST_F(IpcLendingTest, AnotherUsersLeaseIsRefused) {
  for (const uid_t other : {getuid() + 1, kUnknownUser}) {
    const absl::Status refused = Lend(InTwoParts(), other).status();
    EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
    EXPECT_EQ(GetErrorInfo(refused).reason, "LEASE_OF_ANOTHER_USER");
    EXPECT_EQ(GetErrorInfo(refused).metadata["uid"], absl::StrCat(other));
    EXPECT_EQ(GetErrorInfo(refused).metadata["lease_uid"], absl::StrCat(getuid()));
    EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
    EXPECT_EQ(handles_.leases().Held(lease_), false);
  }
  v1::LendRequest request = InTwoParts();
  request.set_lease(*handles_.leases().Begin(kUnknownUser));
  EXPECT_TRUE(absl::IsPermissionDenied(Lend(request, kUnknownUser).status()));
}

// A user who learned the handle of another one said first how long the allocation is, so that its
// owner could not lend it.
TEST_F(IpcLendingTest, UsersDoNotShareWhatIsOpen) {
  const auto open = [&](uid_t user, int64_t bytes) {
    return segments_->ImportIpc(0, user, lender_.handle(), bytes);
  };
  const auto first = open(1, kSecondPart), again = open(1, kSecondPart);
  const auto other = open(2, kAllocationBytes);
  ASSERT_TRUE(first.ok() && again.ok()) << first.status() << again.status();
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
  EXPECT_TRUE(absl::IsInvalidArgument(open(1, kAllocationBytes).status()));
}

TEST_F(IpcLendingTest, AllocationsThatCannotBeAreRefused) {
  const auto ipc = [](v1::LendRequest& r, int i) { return r.mutable_memories(i)->mutable_ipc(); };
  ExpectRefused([&](auto& r) { ipc(r, 0)->set_handle("short"); }, "memories[0].ipc.handle");
  ExpectRefused([&](auto& r) { ipc(r, 1)->set_handle(std::string(65, 'x')); },
                "memories[1].ipc.handle");
  ExpectRefused([&](auto& r) { ipc(r, 1)->set_handle(std::string(64, 'x')); },
                "memories[1]: ipc: device sim:0");
  ExpectRefused([&](auto& r) { ipc(r, 0)->set_bytes(0); }, "memories[0].ipc.bytes");
  ExpectRefused([&](auto& r) { ipc(r, 0)->set_bytes(-1); }, "memories[0].ipc.bytes");
  ExpectRefused([&](auto& r) { ipc(r, 0)->set_bytes(kSecondPart - 1); }, "memories[0].ipc.offset");
  ExpectRefused([&](auto& r) { ipc(r, 1)->set_bytes(kAllocationBytes + 4096); }, "as said of");
  for (int i = 0; i < 2; ++i) {
    constexpr int64_t kLarge = std::numeric_limits<int64_t>::max();
    ExpectRefused([&](auto& r) { ipc(r, i)->set_offset(8); }, "ipc.offset");
    ExpectRefused([&](auto& r) { ipc(r, i)->set_offset(-16); }, "ipc.offset");
    ExpectRefused([&](auto& r) { ipc(r, i)->set_offset(kLarge - 15); }, "ipc.offset");
    ExpectRefused([&](auto& r) { r.mutable_memories(i)->set_bytes(kLarge); }, "ipc.offset");
  }
  ExpectRefused(
      [&](auto& r) {
        for (int i = 0; i < 2; ++i) ipc(r, i)->set_bytes(int64_t{1} << 40);
      },
      "the handle is not of memory that long");
  ExpectRefused([](auto& r) { r.mutable_memories(0)->set_kind("host"); }, "memories[0].kind");
  ExpectRefused([](auto& r) { r.mutable_memories(0)->set_kind("cuda"); }, "memories[0].kind");
  ExpectRefused([](auto& r) { r.mutable_memories(1)->set_device_uuid("sim:1"); },
                "memories[1].device_uuid");
  ExpectRefused([](auto& r) { r.mutable_memories(1)->set_token("0123"); }, "memories[1].token");
  ExpectRefused([](auto& r) { *r.add_memories() = r.memories(0); }, "memories[2].ipc");
  lender_.Die();
  ExpectRefused([](auto&) {}, "no process has this memory");
}

}  // namespace
}  // namespace remesh::worker
