// SPDX-License-Identifier: Apache-2.0
// States that are written once, from the calls of trainers to manifests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "worker/local/testing/lending_fixture.h"

namespace remesh::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class WriteOnceTest : public LendingTest {
 protected:
  WriteOnceTest() { buffers_->Assign(Once()); }

  static v1::Assignment Once(bool committed = false) {
    v1::Assignment assignment = TwoShards();
    assignment.set_write_once(true);
    assignment.set_hosts(2);
    assignment.set_committed(committed);
    return assignment;
  }
  // Another life of the worker, which the planner has not reached yet.
  void Restart() {
    buffers_ = nullptr;
    store_ = nullptr;
    Start();
  }
  // The planner commits, or says again that it has.
  void Commit(const std::string& uid = "uid", int64_t generation = 1) {
    v1::CommitWrite commit;
    commit.set_state(kLentState);
    commit.set_state_uid(uid);
    commit.set_generation(generation);
    buffers_->CommitWrite(commit);
  }
  absl::Status Allocate(const std::string& uid = "", int64_t device = -1) {
    v1::AllocateRequest request;
    request.set_state(kLentState);
    request.set_state_uid(uid);
    if (device >= 0) request.add_shards()->add_devices(device);
    for (;;) {
      Outcome<v1::ShardsResponse> outcome = absl::UnknownError("not run");
      strand_.Post([&] { outcome = buffers_->Allocate(request); });
      Settle();
      Settle();
      if (outcome.ok()) shards_ = *outcome;
      awaited_ = outcome.awaited();
      if (!Awaits(awaited_, Awaited::What::kMemory)) return outcome.error();
    }
  }
  absl::Status Seal(int64_t device = -1, const std::string& write = "") {
    v1::SealRequest request;
    request.set_state(kLentState);
    request.set_write(write);
    if (device >= 0) request.add_shards()->add_devices(device);
    return buffers_->Seal(request).status();
  }
  absl::Status SealOf(const std::string& uid) {
    v1::SealRequest request;
    request.set_state(kLentState);
    request.set_state_uid(uid);
    return buffers_->Seal(request).status();
  }
  absl::Status Unseal() {
    v1::UnsealRequest request;
    request.set_state(kLentState);
    request.set_write("2");
    return buffers_->Unseal(request).status();
  }
  absl::Status Read(const std::string& uid = "") {
    v1::GetShardsRequest request;
    request.set_state(kLentState);
    request.set_generation(1);
    request.set_state_uid(uid);
    const Outcome<v1::ShardsResponse> outcome = buffers_->GetShards(request);
    if (outcome.ok()) shards_ = *outcome;
    awaited_ = outcome.awaited();
    return outcome.error();
  }
  absl::Status Release() {
    v1::ReleaseRequest request;
    request.set_state(kLentState);
    return buffers_->Release(request);
  }
  static std::string Reason(const absl::Status& status) { return GetErrorInfo(status).reason; }

  v1::ShardsResponse shards_;
  std::optional<Awaited> awaited_;
};

TEST_F(WriteOnceTest, NothingIsLentOrUnsealedFromTheFirstMoment) {
  const absl::Status lent = Refusal(Request(Memory("aaaa")));
  EXPECT_EQ(Reason(lent), "WRITE_ONCE") << lent;
  EXPECT_EQ(lent.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Reason(Unseal()), "WRITE_ONCE");
  ASSERT_TRUE(Allocate().ok());
  EXPECT_EQ(Reason(Unseal()), "WRITE_ONCE");
  ASSERT_TRUE(Seal(10).ok());
  const absl::Status unsealed = Unseal();
  EXPECT_EQ(Reason(unsealed), "WRITE_ONCE");
  EXPECT_THAT(std::string(unsealed.message()), HasSubstr("create another state"));
  EXPECT_EQ(store_->Find(kLentState, 1)->sealed_shards(), 1);
}

// Trainers call before the planner has reported the state to the worker's next life.
TEST_F(WriteOnceTest, ALaterLifeKnowsItBeforeThePlannerReportsTheState) {
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal(10, "1").ok());
  Restart();
  EXPECT_EQ(Reason(Unseal()), "WRITE_ONCE");
  EXPECT_EQ(Reason(Refusal(Request(Memory("aaaa")))), "WRITE_ONCE");
  EXPECT_EQ(Reason(Release()), "WRITE_ONCE");
  EXPECT_EQ(Reason(Allocate()), "SHARD_SEALED");
  ASSERT_TRUE(Seal(11, "1").ok());
  EXPECT_EQ(Reason(Read()), "GENERATION_NOT_FOUND") << "the planner has committed nothing";
  EXPECT_EQ(Reason(Allocate()), "STATE_COMMITTED");
  Restart();
  buffers_->Assign(Once(/*committed=*/true));
  EXPECT_TRUE(Read().ok());
  Restart();
  EXPECT_TRUE(Read().ok()) << "the manifest knows the commit";
  EXPECT_EQ(Reason(Unseal()), "WRITE_ONCE");
}

TEST_F(WriteOnceTest, AllocateGivesOutNoSealedShard) {
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal(10).ok());
  const absl::Status refused = Allocate();
  EXPECT_EQ(Reason(refused), "SHARD_SEALED");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("written once"));
  EXPECT_EQ(Reason(Allocate("", 10)), "SHARD_SEALED");
  ASSERT_TRUE(Allocate("", 11).ok());
  EXPECT_THAT(shards_.shards(), SizeIs(1));
  ASSERT_TRUE(Seal(11).ok());
  const absl::Status sealed = Allocate();
  EXPECT_EQ(Reason(sealed), "STATE_COMMITTED");
  EXPECT_THAT(std::string(sealed.message()), HasSubstr("create another state"));
}

TEST_F(WriteOnceTest, ItIsReadableOnceItIsCommitted) {
  ASSERT_TRUE(Allocate().ok());
  EXPECT_EQ(Reason(Read()), "GENERATION_NOT_FOUND");
  ASSERT_TRUE(Seal().ok());
  EXPECT_EQ(Reason(Read()), "GENERATION_NOT_FOUND");
  EXPECT_TRUE(Awaits(awaited_, Awaited::What::kGeneration));
  Commit("another");
  Commit("uid", 2);
  EXPECT_EQ(Reason(Read()), "GENERATION_NOT_FOUND") << "of another state or generation";
  Commit();
  ASSERT_TRUE(Read().ok());
  EXPECT_EQ(shards_.state_uid(), "uid");
  Commit();  // again
  EXPECT_TRUE(Read().ok());
  EXPECT_EQ(Reason(Release()), "GENERATION_READABLE");
  EXPECT_EQ(Reason(Allocate()), "STATE_COMMITTED");
  EXPECT_TRUE(Seal().ok()) << "a Seal whose answer was lost";
}

TEST_F(WriteOnceTest, WhatIsCommittedStaysSoIfTheStateIsReportedAsItWas) {
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  Commit();
  buffers_->Assign(Once());
  EXPECT_TRUE(Read().ok());
  EXPECT_EQ(Reason(Allocate()), "STATE_COMMITTED");
}

TEST_F(WriteOnceTest, AHostWithoutShardsKnowsTheCommitFromItsWorker) {
  v1::Assignment nothing = Once();
  nothing.clear_shards();
  buffers_->Assign(nothing);
  ASSERT_TRUE(Allocate().ok());
  EXPECT_EQ(shards_.state_uid(), "uid");
  ASSERT_TRUE(Seal().ok());
  EXPECT_EQ(Reason(Read()), "GENERATION_NOT_FOUND");
  EXPECT_TRUE(Awaits(awaited_, Awaited::What::kGeneration));
  Commit();
  EXPECT_TRUE(Read().ok());
  buffers_->Assign(nothing);
  EXPECT_TRUE(Read().ok()) << "committed stays committed";
}

// A process there that stood still sees the commit of the other hosts before it calls. Regression:
// it was told that buffers are missing on its host.
TEST_F(WriteOnceTest, AHostWithoutShardsMayCallAfterTheCommit) {
  v1::Assignment nothing = Once(/*committed=*/true);
  nothing.clear_shards();
  buffers_->Assign(nothing);
  ASSERT_TRUE(Allocate().ok());
  EXPECT_EQ(shards_.state_uid(), "uid");
  EXPECT_THAT(shards_.shards(), SizeIs(0));
  EXPECT_TRUE(SealOf("uid").ok());
  EXPECT_EQ(Reason(SealOf("earlier")), "STATE_REPLACED");
  EXPECT_EQ(Reason(Unseal()), "WRITE_ONCE");
  nothing.set_generation(2);  // the state has moved on
  buffers_->Assign(nothing);
  EXPECT_EQ(Reason(Allocate()), "STATE_COMMITTED");
}

TEST_F(WriteOnceTest, ACommitBeforeTheStateIsReportedCounts) {
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  Restart();
  Commit();
  EXPECT_TRUE(Read().ok());
}

TEST_F(WriteOnceTest, ACommitOfWhatIsNotHereChangesNothing) {
  Restart();
  Commit();
  EXPECT_EQ(Reason(Allocate()), "STATE_NOT_FOUND");
  buffers_->Assign(Once());
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  ASSERT_TRUE(buffers_->Forget(kLentState, "uid"));
  Commit();
  EXPECT_EQ(Reason(Read()), "GENERATION_NOT_FOUND");
  EXPECT_EQ(Reason(Allocate()), "STATE_NOT_FOUND");
  EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
}

TEST_F(WriteOnceTest, AHostThatLostItsCommittedShardsGivesOutNoMemory) {
  buffers_->Assign(Once(/*committed=*/true));
  EXPECT_EQ(Reason(Allocate()), "STATE_COMMITTED");
  EXPECT_EQ(Reason(Seal()), "NOT_ALLOCATED");
  EXPECT_EQ(Reason(Read()), "GENERATION_NOT_FOUND");
  EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
}

// It came back without its shards while the planner wrote the commit down, and a trainer asked for
// memory. Sealed, that would have been zeros in the place of what was committed.
TEST_F(WriteOnceTest, MemoryThatWasGivenOutBeforeTheCommitArrivedIsNoPartOfIt) {
  for (const bool by_assignment : {false, true}) {
    buffers_->Assign(Once());
    ASSERT_TRUE(Allocate().ok());
    ASSERT_TRUE(Seal(10).ok());
    if (by_assignment) {
      buffers_->Assign(Once(/*committed=*/true));
    } else {
      Commit();
    }
    EXPECT_FALSE(Seal().ok());
    EXPECT_EQ(Reason(Allocate()), "STATE_COMMITTED");
    EXPECT_EQ(changes_.back().sealed_shards(), 0);
    EXPECT_EQ(changes_.back().phase(), v1::SHARD_PHASE_BUILDING);
    Restart();
    EXPECT_EQ(store_->List().size(), 0u);
  }
}

TEST_F(WriteOnceTest, MemoryThatIsBeingReservedWhenTheCommitArrivesIsGivenUp) {
  v1::AllocateRequest request;
  request.set_state(kLentState);
  strand_.Post([&] {
    EXPECT_TRUE(Awaits(buffers_->Allocate(request).awaited(), Awaited::What::kMemory));
    Commit();
  });
  Settle();
  Settle();
  EXPECT_EQ(store_->Find(kLentState, 1), nullptr);
  EXPECT_EQ(Reason(Allocate()), "STATE_COMMITTED");
}

TEST_F(WriteOnceTest, TheWriteOfWhatIsCommittedStays) {
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal(-1, "1").ok());
  ASSERT_TRUE(Seal(-1, "2").ok()) << "joins, as without write_once";
  EXPECT_FALSE(store_->Find(kLentState, 1)->Summary().write_committed());
  Commit();
  EXPECT_TRUE(store_->Find(kLentState, 1)->Summary().write_committed());
  const absl::Status refused = Seal(-1, "3");
  EXPECT_EQ(Reason(refused), "WRITE_DIFFERS");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("committed as write \"2\""));
  EXPECT_TRUE(Seal(-1, "2").ok());
  EXPECT_EQ(store_->Find(kLentState, 1)->write(), "2");
}

TEST_F(WriteOnceTest, ReleaseGivesBackNothingThatIsSealed) {
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Release().ok());
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal(10).ok());
  EXPECT_EQ(Reason(Release()), "WRITE_ONCE");
  ASSERT_TRUE(Seal(11).ok());
  EXPECT_EQ(Reason(Release()), "GENERATION_READABLE");
}

// A planner of an earlier version knows neither the flag nor the commit.
TEST_F(WriteOnceTest, WithoutTheFlagNothingChanges) {
  ASSERT_TRUE(buffers_->Forget(kLentState, "uid"));
  buffers_->Assign(TwoShards());
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  EXPECT_TRUE(Read().ok());
  Commit();  // of a planner that errs
  EXPECT_TRUE(Unseal().ok());
  EXPECT_TRUE(Seal().ok());
}

TEST_F(WriteOnceTest, AStateOfAnotherUidIsReplaced) {
  ASSERT_TRUE(Allocate("uid").ok());
  EXPECT_EQ(shards_.state_uid(), "uid");
  const absl::Status refused = SealOf("earlier");
  EXPECT_EQ(Reason(refused), "STATE_REPLACED");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorInfo(refused).metadata["state_uid"], "uid");
  EXPECT_EQ(store_->Find(kLentState, 1)->sealed_shards(), 0);
  EXPECT_EQ(Reason(Allocate("earlier")), "STATE_REPLACED");
  EXPECT_TRUE(Awaits(awaited_, Awaited::What::kState));
  EXPECT_EQ(Reason(Read("earlier")), "STATE_REPLACED");
  EXPECT_TRUE(Awaits(awaited_, Awaited::What::kState));
  ASSERT_TRUE(SealOf("uid").ok());
  Restart();
  EXPECT_EQ(Reason(SealOf("earlier")), "STATE_REPLACED") << "the manifest knows the uid";
  EXPECT_TRUE(SealOf("uid").ok());
}

TEST_F(WriteOnceTest, AStateWithoutShardsHereHasAUid) {
  v1::Assignment nothing = Once();
  nothing.clear_shards();
  buffers_->Assign(nothing);
  EXPECT_EQ(Reason(SealOf("earlier")), "STATE_REPLACED");
  EXPECT_EQ(Reason(Allocate("earlier")), "STATE_REPLACED");
  v1::SealRequest request;
  request.set_state(kLentState);
  EXPECT_EQ(buffers_->Seal(request)->state_uid(), "uid");
}

}  // namespace
}  // namespace remesh::worker
