// SPDX-License-Identifier: Apache-2.0
#include "worker/local/lending.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <functional>
#include <limits>
#include <map>
#include <thread>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "worker/device/sim_device.h"
#include "worker/device/testing/sim_lender.h"
#include "worker/keeper/packets.h"
#include "worker/keeper/testing/descriptors.h"
#include "worker/local/state_buffers.h"
#include "worker/local/testing/lending_fixture.h"

namespace remesh::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(LendingTest, WhatIsLentIsTheSourceAtOnceAndTakesNoRoom) {
  const auto lent = Lend(Request(Memory("aaaaaaaaaaaa....bbbbbbbbbbbb")));
  ASSERT_TRUE(lent.ok()) << lent.status();
  EXPECT_EQ(lent->sealed_shards(), 2);
  ASSERT_THAT(changes_, SizeIs(1));
  EXPECT_EQ(changes_[0].phase(), v1::SHARD_PHASE_READY);
  const auto mapped = store_->Map(kLentState, 1);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ((*mapped)->shards[0].data[0], std::byte{'a'});
  EXPECT_EQ((*mapped)->shards[1].data[11], std::byte{'b'});
  EXPECT_EQ(store_->bytes(), 0);
  EXPECT_TRUE((*mapped)->CheckWhole().ok());
}

// The process that first touches a page is charged for it. A worker that read the holes of a
// trainer's file was once killed for that in the middle of a move.
TEST_F(LendingTest, MemoryThatIsNotThereYetMustFitIntoTheWorkersCgroup) {
  constexpr int64_t kPages = 1 << 20;
  LimitMemory();
  const absl::Status refused = Refusal(Request(Memory("aaaa", kPages), kPages));
  EXPECT_EQ(GetErrorInfo(refused).reason, "CGROUP_MEMORY") << refused;
  EXPECT_THAT(changes_, SizeIs(0));
  const auto lent = Lend(Request(Memory(std::string(kPages, 'a'), kPages), kPages));
  EXPECT_TRUE(lent.ok()) << lent.status();
}

TEST_F(LendingTest, MemoryThatIsNotThereYetCountsForLaterLends) {
  constexpr int64_t kPages = 1 << 20;
  LimitMemory(2 * kPages);
  v1::Assignment second = TwoShards();
  second.set_state("jobs/j/states/second");
  buffers_->Assign(second);
  v1::LendRequest other = Request(Memory("aaaa", kPages + 16384), kPages + 16384);
  other.set_state(second.state());
  ASSERT_TRUE(Lend(Request(Memory("aaaa", kPages), kPages)).ok());
  const absl::Status refused = Lend(other).status();
  EXPECT_EQ(GetErrorInfo(refused).reason, "CGROUP_MEMORY");
  EXPECT_EQ(GetErrorInfo(refused).metadata["expected_bytes"], std::to_string(kPages - 4096));
  store_->Drop(kLentState, 1);
  other.mutable_memories(0)->set_token(
      handles_.Bring(Memory("aaaa", kPages + 16384), getuid(), absl::Now()));
  const auto lent = Lend(other);
  EXPECT_TRUE(lent.ok()) << lent.status();
}

TEST_F(LendingTest, TheMemoryStaysThoughTheTrainerEndsAndGoesWithTheGeneration) {
  v1::LendRequest request = Request(Memory("aaaa"));  // the trainer has no descriptor left
  ASSERT_TRUE(Lend(request).ok());
  EXPECT_EQ((*store_->Map(kLentState, 1))->shards[0].data[3], std::byte{'a'});
  store_->Recycle(kLentState, 1);
  EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
  EXPECT_EQ(store_->bytes(), 0);
}

TEST_F(LendingTest, UnsealGivesItBackUnlessTheStateMoves) {
  ASSERT_TRUE(Lend(Request(Memory("aaaa"))).ok());
  v1::UnsealRequest unseal;
  unseal.set_state(kLentState);
  moving_ = true;
  EXPECT_EQ(GetErrorInfo(buffers_->Unseal(unseal).status()).reason, "STATE_MOVING");
  moving_ = false;
  const auto given = buffers_->Unseal(unseal);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->sealed_shards(), 0);
  EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_BUILDING);
  EXPECT_TRUE(Lend(Request(Memory("bbbb"))).ok());
}

TEST_F(LendingTest, SealingWhatIsLentChangesNothing) {
  ASSERT_TRUE(Lend(Request(Memory("aaaa"))).ok());
  v1::SealRequest seal;
  seal.set_state(kLentState);
  const auto sealed = buffers_->Seal(seal);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ(sealed->sealed_shards(), 2);
}

TEST_F(LendingTest, TrainersDoNotGetWhatOneOfThemLends) {
  ASSERT_TRUE(Lend(Request(Memory("aaaa"))).ok());
  v1::GetShardsRequest read;
  read.set_state(kLentState);
  read.set_generation(1);
  EXPECT_EQ(GetErrorInfo(buffers_->GetShards(read).status()).reason, "SHARDS_LENT");
  v1::AllocateRequest allocate;
  allocate.set_state(kLentState);
  EXPECT_EQ(GetErrorInfo(buffers_->Allocate(allocate).status()).reason, "SHARD_SEALED");
  EXPECT_EQ(GetErrorInfo(Refusal(Request(Memory("b")))).reason, "ALREADY_ALLOCATED");
  EXPECT_EQ((*store_->Map(kLentState, 1))->shards[0].data[0], std::byte{'a'});
}

TEST_F(LendingTest, ALaterLifeHasItNoMore) {
  ASSERT_TRUE(Lend(Request(Memory("aaaa"))).ok());
  const auto later = BufferStore::Open({.directory = directory_, .boot_id = "boot", .devices = 2});
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_THAT((*later)->List(), SizeIs(0));
  EXPECT_THAT((*later)->notes(), SizeIs(0));
}

TEST_F(LendingTest, MemoryThatCannotBeReliedOnIsRefused) {
  const auto expect = [&](const v1::LendRequest& request, const std::string& what) {
    const absl::Status refused = Refusal(request);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(what));
    EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
  };
  expect(Request(Memory("", 64, /*seals=*/0)), "sealed against shrinking");
  expect(Request(Memory("", 40), 64), "must be as long as it says, 64");
  if (Fd huge(memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB)); huge) {
    ASSERT_EQ(ftruncate(huge.get(), 1 << 30), 0);  // allocates no page yet
    ASSERT_EQ(fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    expect(Request(std::move(huge)), "ordinary pages");
  }
  expect(Request(Fd(open("/dev/null", O_RDWR | O_CLOEXEC))), "sealed against shrinking");
  v1::LendRequest request = Request(Memory(""));
  request.mutable_memories(0)->set_kind("cuda");
  expect(request, "must be of one device alone");
  request = Request(Memory(""));
  *request.add_memories() = request.memories(0);
  request.mutable_memories(1)->set_token(handles_.Bring(Memory(""), getuid(), absl::Now()));
  request.mutable_memories(1)->set_kind("cuda");
  request.mutable_shards(1)->set_memory(1);
  expect(request, "memories[1].kind");
  request.mutable_memories(1)->set_kind("");
  request.mutable_memories(0)->set_token(handles_.Bring(Memory(""), getuid(), absl::Now()));
  request.mutable_memories(1)->set_token(handles_.Bring(Memory(""), getuid(), absl::Now()));
  expect(request, "memories[1].kind");
  request = Request(Memory(""));
  request.mutable_memories(0)->set_token("0123");
  expect(request, "memories[0].token");
  request = Request(Memory(""));
  ASSERT_TRUE(handles_.Take(request.memories(0).token(), absl::Now()));
  expect(request, "memories[0].token");  // can be used once
}

TEST_F(LendingTest, EveryShardIsThereOnceAndWithinItsMemory) {
  const auto expect = [&](auto change, const std::string& what) {
    v1::LendRequest request = Request(Memory(""));
    change(request);
    const absl::Status refused = Refusal(request);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(what));
  };
  expect([](auto& r) { r.mutable_shards()->RemoveLast(); }, "must have w on device 11");
  expect([](auto& r) { r.mutable_shards(1)->set_device(10); }, "must not be there twice");
  expect([](auto& r) { r.mutable_shards(1)->set_device(12); }, "shards[1].array");
  expect([](auto& r) { r.mutable_shards(1)->set_array("x"); }, "shards[1].array");
  expect([](auto& r) { r.mutable_shards(1)->set_offset(8); }, "shards[1].offset");
  expect([](auto& r) { r.mutable_shards(1)->set_offset(-16); }, "shards[1].offset");
  expect([](auto& r) { r.mutable_shards(1)->set_offset(int64_t{1} << 62); }, "shards[1].offset");
  expect([](auto& r) { r.mutable_shards(1)->set_offset(64); }, "shards[1].offset");
  expect([](auto& r) { r.mutable_shards(1)->set_memory(1); }, "shards[1].memory");
  expect([](auto& r) { r.mutable_memories(0)->set_bytes(0); }, "shards[0].offset");
  expect([](auto& r) { r.add_memories()->set_bytes(10); }, "memories[1].token");
  expect([](auto& r) { r.set_state(""); }, "state");
}

// A worker that maps files of holes, as long as its address space, ends when it next needs memory.
TEST_F(LendingTest, MoreThanTheMachineHasIsRefused) {
  constexpr int64_t kHuge = int64_t{1} << 45;  // two of them fit into an address space
  const absl::Status refused = Refusal(Request(Memory("aaaa", kHuge), kHuge));
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("memories[0].bytes"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the machine's memory"));
  struct sysinfo machine {};
  ASSERT_EQ(sysinfo(&machine), 0);
  const auto most = static_cast<int64_t>((machine.totalram + machine.totalswap) * machine.mem_unit);
  v1::LendRequest request = Request(Memory("aaaa", most), most);
  *request.add_memories() = request.memories(0);
  request.mutable_memories(1)->set_bytes(64);
  request.mutable_memories(1)->set_token(handles_.Bring(Memory("bbbb"), getuid(), absl::Now()));
  request.mutable_shards(1)->set_memory(1);
  EXPECT_THAT(std::string(Refusal(request).message()), HasSubstr("memories[1].bytes"));
}

// One device, which has the array's columns in boxes of their own. Finding the shards of a request
// once compared each with all, 3 us a pair: 10,000 boxes kept the strand busy for minutes.
TEST_F(LendingTest, ShardsOfOneArrayAndDeviceAreToldApartByTheirBoxes) {
  v1::Assignment columns = TwoShards();
  columns.mutable_shards(1)->set_device(10);
  columns.mutable_shards(1)->set_local_device(0);
  buffers_->Assign(columns);
  v1::LendRequest request = Request(Memory("aaaaaaaaaaaa....bbbbbbbbbbbb"));
  request.mutable_shards(1)->set_device(10);
  const auto expect = [&](const std::string& what) {
    request.mutable_memories(0)->set_token(
        handles_.Bring(Memory("aaaaaaaaaaaa....bbbbbbbbbbbb"), getuid(), absl::Now()));
    EXPECT_THAT(std::string(Refusal(request).message()), HasSubstr(what));
  };
  expect("shards[0].box: value \"\" must say which");
  *request.mutable_shards(0)->mutable_box() = columns.shards(1).box();
  *request.mutable_shards(1)->mutable_box() = columns.shards(1).box();
  expect("shards[1].array: value \"w\" must not be there twice");
  request.mutable_shards(1)->mutable_box()->set_hi(0, 3);
  expect("shards[1].array: value \"w on device 10\"");
  *request.mutable_shards(1)->mutable_box() = columns.shards(0).box();
  request.mutable_memories(0)->set_token(
      handles_.Bring(Memory("aaaaaaaaaaaa....bbbbbbbbbbbb"), getuid(), absl::Now()));
  ASSERT_TRUE(Lend(request).ok());
  const auto mapped = store_->Map(kLentState, 1);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ((*mapped)->shards[0].data[0], std::byte{'b'});
  EXPECT_EQ((*mapped)->shards[1].data[0], std::byte{'a'});
}

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

TEST_F(LendingTest, AWorkerWithoutDevicesOpensNoAllocation) {
  v1::LendRequest request = Request(Memory(""));
  request.set_lease(*handles_.leases().Begin(getuid()));
  request.mutable_memories(0)->mutable_ipc()->set_handle(std::string(64, 'x'));
  request.mutable_memories(0)->mutable_ipc()->set_bytes(64);
  EXPECT_THAT(std::string(Refusal(request).message()), HasSubstr("memories[0].kind"));
}

TEST(HandleTableTest, WhatIsBroughtIsTakenOnceAndNotForEver) {
  HandleTable table;
  const absl::Time now = absl::Now();
  const auto bring = [&](absl::Time at) { return table.Bring(Fd(dup(0)), 1, at); };
  const std::string token = bring(now);
  EXPECT_FALSE(table.Take("", now));
  EXPECT_TRUE(table.Take(token, now));
  EXPECT_FALSE(table.Take(token, now));
  const std::string old = bring(now);
  EXPECT_FALSE(table.Take(old, now + HandleTable::kBroughtAge + absl::Seconds(1)));
  const std::string first = bring(now);
  for (size_t i = 0; i < HandleTable::kBroughtMax; ++i) bring(now);
  EXPECT_FALSE(table.Take(first, now));
}

TEST(HandleTableTest, WhoFloodsTheTableLosesHisOwn) {
  HandleTable table;
  const absl::Time now = absl::Now();
  const auto bring = [&](uid_t uid) { return table.Bring(Fd(dup(0)), uid, now); };
  const std::string others = bring(1);
  const std::string oldest = bring(2);
  for (size_t i = 0; i < 3 * HandleTable::kBroughtMax; ++i) bring(2);
  const std::string newest = bring(2);
  EXPECT_TRUE(table.Take(others, now));
  EXPECT_FALSE(table.Take(oldest, now));
  EXPECT_TRUE(table.Take(newest, now));
}

// Descriptors of loans that wait to be opened were limited by nothing.
TEST(HandleTableTest, WhatIsTakenCountsForItsUserUntilItIsLetGo) {
  HandleTable table;
  const absl::Time now = absl::Now();
  const auto bring = [&](uid_t uid) { return table.Bring(Fd(dup(0)), uid, now); };
  std::vector<std::shared_ptr<const Fd>> taken;
  for (size_t i = 0; i < HandleTable::kBroughtMax; ++i) taken.push_back(table.Take(bring(1), now));
  EXPECT_FALSE(table.Take(bring(1), now));
  EXPECT_TRUE(table.Take(bring(2), now));
  taken.pop_back();
  EXPECT_TRUE(table.Take(bring(1), now));
}

TEST(HandleTableTest, OfUsersWhoHaveAsManyTheNewcomerLoses) {
  HandleTable table;
  const absl::Time now = absl::Now();
  std::map<uid_t, std::string> firsts;
  // With one descriptor too many, all five users have equally many.
  ASSERT_EQ((HandleTable::kBroughtMax + 1) % 5, 0u);
  for (size_t i = 0; i <= HandleTable::kBroughtMax; ++i) {
    const uid_t uid = 1 + i % 5;
    firsts.emplace(uid, table.Bring(Fd(dup(0)), uid, now));  // keeps the first token of each user
  }
  EXPECT_FALSE(table.Take(firsts[5], now));
  for (uid_t uid = 1; uid < 5; ++uid) EXPECT_TRUE(table.Take(firsts[uid], now)) << uid;
}

TEST(HandleTableTest, WhatNobodyTakesIsClosedInTime) {
  HandleTable table;
  const absl::Time now = absl::Now();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const Fd reader(ends[0]);
  EXPECT_EQ(table.CloseOld(now), absl::InfiniteDuration());
  table.Bring(Fd(ends[1]), 1, now);
  const absl::Duration left = table.CloseOld(now);
  EXPECT_LE(left, HandleTable::kBroughtAge + absl::Seconds(1));
  char byte;
  EXPECT_EQ(read(reader.get(), &byte, 1), -1);  // a writer still exists
  EXPECT_EQ(table.CloseOld(now + left), absl::InfiniteDuration());
  pollfd gone{reader.get(), 0, 0};
  EXPECT_EQ(poll(&gone, 1, 10'000), 1);  // and is soon gone
}

// Whether `what` ends before the other end of a lingering socket is closed, so that nothing in
// `what` waits for closing it.
bool EndsBefore(LingeringSocket socket, const std::function<void()>& what) {
  absl::Notification ended;
  std::thread doing([&] {
    what();
    ended.Notify();
  });
  const bool in_time = ended.WaitForNotificationWithTimeout(absl::Seconds(10));
  socket.other.Reset();
  doing.join();
  return in_time;
}

TEST(HandleTableTest, NobodyWaitsUntilWhatNobodyTookIsClosed) {
  HandleTable table;
  const absl::Time now = absl::Now();
  LingeringSocket socket = NewLingeringSocket();
  table.Bring(std::move(socket.slow), 1, now);
  EXPECT_TRUE(
      EndsBefore(std::move(socket), [&] { table.CloseOld(now + 2 * HandleTable::kBroughtAge); }));
}

TEST(HandleTableTest, NobodyWaitsUntilWhatIsTooMuchIsClosed) {
  HandleTable table;
  const absl::Time now = absl::Now();
  LingeringSocket socket = NewLingeringSocket();
  table.Bring(std::move(socket.slow), 1, now);
  EXPECT_TRUE(EndsBefore(std::move(socket), [&] {
    for (size_t i = 0; i < HandleTable::kBroughtMax; ++i) table.Bring(Fd(dup(0)), 1, now);
  }));
}

TEST_F(LendingTest, NobodyWaitsUntilWhatIsRefusedIsClosed) {
  LingeringSocket socket = NewLingeringSocket();
  const v1::LendRequest request = Request(std::move(socket.slow));
  EXPECT_TRUE(EndsBefore(std::move(socket),
                         [&] { EXPECT_TRUE(absl::IsInvalidArgument(Refusal(request))); }));
}

}  // namespace
}  // namespace remesh::worker
