// SPDX-License-Identifier: Apache-2.0
// The names of writes, from the calls of trainers to manifests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "worker/local/testing/lending_fixture.h"

namespace remesh::worker {
namespace {

using ::testing::HasSubstr;

class WritesTest : public LendingTest {
 protected:
  // Another life of the worker, to which the planner reports `assignment`.
  void Restart(const v1::Assignment& assignment = TwoShards()) {
    buffers_ = nullptr;
    store_ = nullptr;
    Open(nullptr);
    buffers_->Assign(assignment);
  }
  absl::Status Allocate() {
    v1::AllocateRequest request;
    request.set_state(kLentState);
    for (;;) {
      Outcome<v1::ShardsResponse> outcome = absl::UnknownError("not run");
      strand_.Post([&] { outcome = buffers_->Allocate(request); });
      Settle();
      Settle();
      if (!Awaits(outcome.awaited(), Awaited::What::kMemory)) return outcome.error();
    }
  }
  absl::Status Seal(const std::string& write, int64_t device = -1) {
    v1::SealRequest request;
    request.set_state(kLentState);
    request.set_write(write);
    if (device >= 0) request.add_shards()->add_devices(device);
    return buffers_->Seal(request).status();
  }
  absl::Status Unseal(const std::string& write, int64_t device = -1) {
    v1::UnsealRequest request;
    request.set_state(kLentState);
    request.set_write(write);
    if (device >= 0) request.add_shards()->add_devices(device);
    return buffers_->Unseal(request).status();
  }
  absl::Status LendAs(const std::string& write) {
    v1::LendRequest request = Request(Memory("aaaa"));
    request.set_write(write);
    return Lend(request).status();
  }
  absl::Status Release() {
    v1::ReleaseRequest request;
    request.set_state(kLentState);
    return buffers_->Release(request);
  }
  // Other hosts have shards of the state, too.
  static v1::Assignment OnTwoHosts() {
    v1::Assignment assignment = TwoShards();
    assignment.set_hosts(2);
    return assignment;
  }
  // All shards sealed, of no write.
  void Filled() {
    ASSERT_TRUE(Allocate().ok());
    ASSERT_TRUE(Seal("").ok());
  }
  std::string Write() { return store_->Find(kLentState, 1)->Summary().write(); }
  v1::ShardPhase Phase() { return store_->Find(kLentState, 1)->phase(); }
  static std::string Reason(const absl::Status& status) { return GetErrorInfo(status).reason; }
};

TEST_F(WritesTest, UnsealNamesAWriteAndALaterOneReplacesIt) {
  Filled();
  EXPECT_EQ(changes_.back().write(), "");
  ASSERT_TRUE(Unseal("7").ok());
  EXPECT_EQ(changes_.back().write(), "7");
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_BUILDING);
  const size_t before = changes_.size();
  ASSERT_TRUE(Unseal("7").ok());  // its answer was lost
  EXPECT_EQ(changes_.size(), before);
  ASSERT_TRUE(Unseal("8").ok());  // no shard is sealed, and the planner learns of it all the same
  EXPECT_EQ(changes_.back().write(), "8");
  ASSERT_TRUE(Seal("8").ok());
  EXPECT_EQ(changes_.back().write(), "8");
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_READY);
}

TEST_F(WritesTest, AnUnnamedWriteDoesNotBearTheNameOfTheOneBefore) {
  Filled();
  ASSERT_TRUE(Unseal("7").ok());
  ASSERT_TRUE(Seal("").ok());
  EXPECT_EQ(Write(), "7");
  ASSERT_TRUE(Unseal("").ok());
  EXPECT_EQ(Write(), "");
}

TEST_F(WritesTest, SealKeepsTheWriteThatBeganAndRefusesAnother) {
  Filled();
  ASSERT_TRUE(Unseal("7").ok());
  const absl::Status differs = Seal("8");
  EXPECT_EQ(differs.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Reason(differs), "WRITE_DIFFERS");
  EXPECT_EQ(GetErrorInfo(differs).metadata["begun_write"], "7");
  EXPECT_EQ(GetErrorInfo(differs).metadata["write"], "8");
  EXPECT_EQ(Phase(), v1::SHARD_PHASE_BUILDING);
  ASSERT_TRUE(Seal("7", 10).ok());
  EXPECT_EQ(Reason(Seal("8", 10)), "WRITE_DIFFERS");  // one is sealed, the other is not
  ASSERT_TRUE(Seal("").ok());
  EXPECT_EQ(Write(), "7");
  EXPECT_EQ(Phase(), v1::SHARD_PHASE_READY);
}

// Regression: it renamed what another write had filled, and beside a host of write 7 the state was
// READY with the content of two writes.
TEST_F(WritesTest, ALateSealOfAWriteThatWasReplacedIsRefused) {
  Filled();
  ASSERT_TRUE(Unseal("7").ok());  // by a trainer that is stopped then
  ASSERT_TRUE(Unseal("8").ok());
  ASSERT_TRUE(Seal("8").ok());
  for (const bool restarted : {false, true}) {
    if (restarted) Restart();
    const absl::Status late = Seal("7");
    EXPECT_EQ(Reason(late), "WRITE_DIFFERS") << late;
    EXPECT_EQ(Write(), "8");
  }
  ASSERT_TRUE(Unseal("7").ok());  // a new write of the same name
  ASSERT_TRUE(Seal("7").ok());
  EXPECT_EQ(Write(), "7");
  EXPECT_EQ(Reason(Seal("8")), "WRITE_DIFFERS");
  ASSERT_TRUE(Seal("9").ok()) << "a later write is joined";
}

// Regression: the host had given its shards away and committed. Until all have committed, what it
// held before is what the state can be rebuilt from.
TEST_F(WritesTest, WhatIsLeftOfTheGenerationBeforeAMoveIsNotTakenBack) {
  Filled();
  buffers_->Committed(kLentState, store_->Find(kLentState, 1)->state_uid(), 2);
  EXPECT_EQ(Reason(Unseal("8")), "STATE_MOVING");
  EXPECT_EQ(Phase(), v1::SHARD_PHASE_READY);
  buffers_->TakenBack(kLentState, store_->Find(kLentState, 1)->state_uid(), 2);
  EXPECT_TRUE(Unseal("8").ok());
}

TEST_F(WritesTest, SomeShardsAreWrittenAgainAndTheHostIsOfTheNewWrite) {
  Filled();
  ASSERT_TRUE(Unseal("7", 10).ok());
  ASSERT_TRUE(Seal("7", 10).ok());
  ASSERT_TRUE(Unseal("7", 11).ok());
  EXPECT_EQ(Phase(), v1::SHARD_PHASE_BUILDING);
  ASSERT_TRUE(Unseal("7").ok());  // both once more
  ASSERT_TRUE(Seal("7", 11).ok());
  EXPECT_EQ(store_->Find(kLentState, 1)->sealed_shards(), 1);
  ASSERT_TRUE(Seal("7", 10).ok());
  EXPECT_EQ(Phase(), v1::SHARD_PHASE_READY);
}

TEST_F(WritesTest, AFirstFillIsOfTheWriteThatSealNames) {
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal("7", 10).ok());
  EXPECT_EQ(Write(), "7");
  EXPECT_EQ(Reason(Seal("8", 11)), "WRITE_DIFFERS");
  ASSERT_TRUE(Seal("", 11).ok());
  EXPECT_EQ(Write(), "7");
  EXPECT_EQ(Phase(), v1::SHARD_PHASE_READY);
}

TEST_F(WritesTest, ASealedHostJoinsAWriteWithItsContent) {
  Filled();
  ASSERT_TRUE(Seal("7").ok());
  EXPECT_EQ(changes_.back().write(), "7");
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_READY);
  const size_t before = changes_.size();
  ASSERT_TRUE(Seal("").ok());
  ASSERT_TRUE(Seal("7").ok());
  EXPECT_EQ(changes_.size(), before);
  ASSERT_TRUE(Seal("8").ok());
  EXPECT_EQ(Write(), "8");
}

TEST_F(WritesTest, NoWriteChangesWhileTheStateMoves) {
  Filled();
  ASSERT_TRUE(Seal("7").ok());
  moving_ = true;
  EXPECT_EQ(Reason(Unseal("8")), "STATE_MOVING");
  EXPECT_EQ(Reason(Seal("8")), "STATE_MOVING");
  EXPECT_TRUE(Seal("7").ok());  // a trainer whose answer was lost
  EXPECT_TRUE(Seal("").ok());
  EXPECT_EQ(Write(), "7");
}

TEST_F(WritesTest, AWorkerThatDiesBetweenUnsealAndSealKnowsTheWrite) {
  Filled();
  ASSERT_TRUE(Unseal("7").ok());
  Restart();
  EXPECT_EQ(Write(), "7");
  EXPECT_EQ(Phase(), v1::SHARD_PHASE_BUILDING);
  ASSERT_TRUE(Seal("").ok());
  EXPECT_EQ(changes_.back().write(), "7");
}

TEST_F(WritesTest, ALoanIsOfItsWriteAndMayJoinAnother) {
  ASSERT_TRUE(LendAs("7").ok());
  EXPECT_EQ(changes_.back().write(), "7");
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_READY);
  ASSERT_TRUE(Seal("8").ok());
  EXPECT_EQ(changes_.back().write(), "8");
  ASSERT_TRUE(Unseal("9").ok());
  EXPECT_EQ(changes_.back().write(), "9");
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_BUILDING);
  ASSERT_TRUE(LendAs("10").ok());
  EXPECT_EQ(changes_.back().write(), "10");
}

TEST_F(WritesTest, BuffersAfterALoanAreOfTheWriteThatBegan) {
  for (const bool restarted : {false, true}) {
    ASSERT_TRUE(LendAs("").ok());
    ASSERT_TRUE(Unseal("7").ok());
    if (restarted) Restart();
    Filled();
    EXPECT_EQ(changes_.back().write(), "7") << restarted;
    EXPECT_EQ(store_->begun_writes().Find(kLentState, "uid"), std::nullopt);
    buffers_->Forget(kLentState, "uid");
    buffers_->Assign(TwoShards());
  }
}

TEST_F(WritesTest, BuffersAfterReleaseAreOfTheWriteThatBegan) {
  for (const bool restarted : {false, true}) {
    Filled();
    ASSERT_TRUE(Unseal("7").ok());
    ASSERT_TRUE(Release().ok());
    if (restarted) Restart();
    Filled();
    EXPECT_EQ(changes_.back().write(), "7") << restarted;
    buffers_->Forget(kLentState, "uid");
    buffers_->Assign(TwoShards());
    Filled();
    EXPECT_EQ(changes_.back().write(), "") << "another life of the state";
    buffers_->Forget(kLentState, "uid");
    buffers_->Assign(TwoShards());
  }
}

TEST_F(WritesTest, ALoanThatEndsWithItsLeaseBeginsNoWrite) {
  const std::string lease = *handles_.leases().Begin(getuid());
  v1::LendRequest request = Request(Memory("aaaa"));
  request.set_write("7");
  request.set_lease(lease);
  ASSERT_TRUE(Lend(request).ok());
  handles_.leases().End(lease);
  buffers_->GiveLost();
  EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_BUILDING);
  EXPECT_EQ(changes_.back().write(), "");
  ASSERT_TRUE(LendAs("").ok());
  EXPECT_EQ(changes_.back().write(), "");
}

TEST_F(WritesTest, NamesThatCannotBeAreRefusedBeforeAnythingChanges) {
  const std::string longer(65, 'x');
  EXPECT_EQ(Reason(LendAs(longer)), "INVALID_FIELD");
  Filled();
  for (const absl::Status& refused : {Seal(longer), Unseal(longer), Seal("a\nb"), Unseal("a\nb")}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "write");
  }
  EXPECT_EQ(Phase(), v1::SHARD_PHASE_READY);
}

TEST_F(WritesTest, OnSeveralHostsAWriteThatBeginsHasAName) {
  buffers_->Assign(OnTwoHosts());
  Filled();  // at first there is nothing to be mixed with
  const absl::Status needed = Unseal("");
  EXPECT_EQ(needed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Reason(needed), "WRITE_ID_NEEDED");
  EXPECT_EQ(GetErrorInfo(needed).metadata["hosts"], "2");
  EXPECT_THAT(std::string(needed.message()), HasSubstr("--write"));
  EXPECT_EQ(Reason(Unseal("", 10)), "WRITE_ID_NEEDED");
  EXPECT_EQ(Phase(), v1::SHARD_PHASE_READY);
  ASSERT_TRUE(Unseal("7").ok());
  ASSERT_TRUE(Seal("").ok());
  EXPECT_EQ(Write(), "7");
}

TEST_F(WritesTest, OnSeveralHostsALoanAfterOneThatWasGivenBackHasAName) {
  for (const bool restarted : {false, true}) {
    buffers_->Assign(OnTwoHosts());
    ASSERT_TRUE(LendAs("").ok());
    EXPECT_EQ(Reason(Unseal("")), "WRITE_ID_NEEDED");
    EXPECT_EQ(Phase(), v1::SHARD_PHASE_READY);
    ASSERT_TRUE(Unseal("7").ok());
    if (restarted) Restart(OnTwoHosts());
    EXPECT_EQ(Reason(LendAs("")), "WRITE_ID_NEEDED") << restarted;
    ASSERT_TRUE(LendAs("7").ok());
    EXPECT_EQ(Write(), "7");
    buffers_->Forget(kLentState, "uid");
  }
}

TEST_F(WritesTest, ALoanThatWasLostIsMadeAgainWithoutAName) {
  buffers_->Assign(OnTwoHosts());
  ASSERT_TRUE(LendAs("").ok());
  Restart(OnTwoHosts());
  EXPECT_TRUE(LendAs("").ok());
}

TEST_F(WritesTest, APlannerThatDoesNotCountHostsChecksNothing) {
  buffers_->Assign(OnTwoHosts());
  Filled();
  buffers_->Assign(TwoShards());  // an older planner
  ASSERT_TRUE(Unseal("").ok());
  ASSERT_TRUE(Seal("").ok());
  v1::Assignment later = TwoShards();
  later.set_generation(2);
  buffers_->Assign(later);  // says nothing of the generation that is here
  EXPECT_EQ(Reason(Unseal("")), "WRITE_ID_NEEDED");
}

// A planner that counts hosts takes over from one that does not.
TEST_F(WritesTest, AnotherCountOfHostsIsNoOtherAssignment) {
  Filled();
  v1::Assignment counted = TwoShards();
  counted.set_hosts(2);
  buffers_->Assign(counted);
  const absl::Status sealed = Allocate();
  EXPECT_EQ(Reason(sealed), "SHARD_SEALED") << sealed;
}

}  // namespace
}  // namespace remesh::worker
