// SPDX-License-Identifier: Apache-2.0
#include "worker/local/lending.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <limits>

#include "base/error.h"
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
  const absl::Status refused = buffers_->Unseal(unseal).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(GetErrorInfo(refused).reason, "STATE_MOVING");
  EXPECT_EQ(GetErrorInfo(refused).metadata.at("execution"), kLentExecution);
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
  EXPECT_EQ(GetErrorInfo(buffers_->GetShards(read).error()).reason, "SHARDS_LENT");
  v1::AllocateRequest allocate;
  allocate.set_state(kLentState);
  EXPECT_EQ(GetErrorInfo(buffers_->Allocate(allocate).error()).reason, "SHARD_SEALED");
  EXPECT_EQ(GetErrorInfo(Refusal(Request(Memory("b")))).reason, "ALREADY_ALLOCATED");
  EXPECT_EQ((*store_->Map(kLentState, 1))->shards[0].data[0], std::byte{'a'});
}

TEST_F(LendingTest, NothingIsBuiltAfterACommitUnlessItIsTakenBack) {
  v1::AllocateRequest allocate;
  allocate.set_state(kLentState);
  const auto reason = [&] { return GetErrorInfo(buffers_->Allocate(allocate).error()).reason; };
  buffers_->Committed(kLentState, "another", 2);
  buffers_->Retired(kLentState, "another", 1);
  ASSERT_TRUE(Lend(Request(Memory("aaaa"))).ok());
  store_->Drop(kLentState, 1);  // its lender went away after the decision
  buffers_->Committed(kLentState, "uid", 2);
  EXPECT_EQ(reason(), "STATE_COMMITTED");
  EXPECT_FALSE(Lend(Request(Memory("aaaa"))).ok());
  buffers_->TakenBack(kLentState, "uid", 2);
  EXPECT_TRUE(Lend(Request(Memory("aaaa"))).ok());
  store_->Drop(kLentState, 1);
  buffers_->Retired(kLentState, "uid", 1);
  buffers_->TakenBack(kLentState, "uid", 3);  // of another attempt
  EXPECT_EQ(reason(), "STATE_COMMITTED");
  buffers_->Assign(TwoShards());
  EXPECT_TRUE(Awaits(buffers_->Allocate(allocate).awaited(), Awaited::What::kMemory));
  Settle();
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

TEST_F(LendingTest, AWorkerWithoutDevicesOpensNoAllocation) {
  v1::LendRequest request = Request(Memory(""));
  request.set_lease(*handles_.leases().Begin(getuid()));
  request.mutable_memories(0)->mutable_ipc()->set_handle(std::string(64, 'x'));
  request.mutable_memories(0)->mutable_ipc()->set_bytes(64);
  EXPECT_THAT(std::string(Refusal(request).message()), HasSubstr("memories[0].kind"));
}

TEST_F(LendingTest, NoCallWaitsUntilWhatIsRefusedIsClosed) {
  LingeringSocket socket = NewLingeringSocket();
  const v1::LendRequest request = Request(std::move(socket.slow));
  EXPECT_TRUE(EndsBefore(std::move(socket),
                         [&] { EXPECT_TRUE(absl::IsInvalidArgument(Refusal(request))); }));
}

}  // namespace
}  // namespace remesh::worker
