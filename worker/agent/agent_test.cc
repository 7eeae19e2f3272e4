// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/agent.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "service/rpc/error_info.h"
#include "worker/agent/testing/agent_fixture.h"

namespace remesh::worker {

using service::StatusFromProto;

namespace {

TEST_F(AgentTest, AStateMovesAndTheOldGenerationRetires) {
  ReadyToMove();
  Prepared();
  const absl::Status moving = hosts_[0]->Unseal().status();
  EXPECT_EQ(moving.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(GetErrorInfo(moving).reason, "STATE_MOVING");
  EXPECT_EQ(GetErrorInfo(moving).metadata["execution"], "jobs/a/executions/1");
  EXPECT_EQ(GetErrorInfo(hosts_[0]->GetShards(2).status()).reason, "NOT_READABLE");
  Transfer();
  Verify();
  Commit();
  for (auto& host : hosts_) {
    auto shards = host->GetShards(2);
    ASSERT_TRUE(shards.ok()) << shards.status();
    EXPECT_TRUE(host->Right(*shards));
    EXPECT_TRUE(host->Right(*host->GetShards(1)));
  }
  Both(v1::AttachRequest::kRetired, [&](v1::AttachResponse& c) {
    c.mutable_retire()->set_state(kState);
    c.mutable_retire()->set_generation(1);
  });
  EXPECT_EQ(GetErrorInfo(hosts_[0]->GetShards(1).status()).reason, "GENERATION_RETIRED");
  EXPECT_TRUE(hosts_[0]->Right(*hosts_[0]->GetShards(2)));
}

TEST_F(AgentTest, HeartbeatsCarryTheSlicesOfEachAttempt) {
  ReadyToMove();
  EXPECT_EQ(hosts_[0]->Beat().slices(), 1u) << "counted from 1";
  EXPECT_EQ(hosts_[0]->Beat().attempts_size(), 0);
  Prepared();
  ASSERT_EQ(hosts_[0]->Beat().attempts_size(), 1);
  EXPECT_EQ(hosts_[0]->Beat().attempts(0).attempt().execution(), Attempt().execution());
  EXPECT_EQ(hosts_[0]->Beat().attempts(0).slices(), 1u);
  Transfer();
  const v1::Heartbeat moved = hosts_[0]->Beat();
  EXPECT_GE(moved.attempts(0).slices(), 1u + 2) << "a local slice, and one of the other host";
  EXPECT_EQ(moved.slices(), moved.attempts(0).slices());
  Abort();
  EXPECT_EQ(hosts_[0]->Beat().attempts_size(), 0);
  EXPECT_EQ(hosts_[0]->Beat().slices(), moved.slices());
  ++attempt_;
  Prepared();
  const v1::Heartbeat next = hosts_[0]->Beat();
  EXPECT_EQ(next.attempts(0).attempt().attempt(), 2);
  EXPECT_EQ(next.attempts(0).slices(), 1u);
  EXPECT_EQ(next.slices(), moved.slices());
  Transfer();
  Verify();
  Commit();
}

TEST_F(AgentTest, AnAbortedAttemptLeavesTheSourceAndTheNextOneSucceeds) {
  ReadyToMove();
  Prepared();
  Transfer();
  Abort();
  for (auto& host : hosts_) {
    EXPECT_TRUE(host->Right(*host->GetShards(1)));
    EXPECT_EQ(GetErrorInfo(host->GetShards(2).status()).reason, "GENERATION_NOT_FOUND");
  }
  Abort();  // the attempt is not known any more
  ++attempt_;
  Prepared();
  Transfer();
  Verify();
  Commit();
  EXPECT_TRUE(hosts_[1]->Right(*hosts_[1]->GetShards(2)));
}

TEST_F(AgentTest, ASourceWhoseLenderIsGoneIsGivenUpWhenTheAttemptIsOver) {
  HandleTable& handles = hosts_[0]->handles;
  const std::string lease = *handles.leases().Begin(getuid());
  const absl::Status lent = hosts_[0]->Lend(LendRows(handles, lease)).status();
  ASSERT_TRUE(lent.ok()) << lent;
  v1::AllocateRequest request;
  request.set_state(kState);
  ASSERT_TRUE(hosts_[1]->Allocate(request).ok());
  hosts_[1]->OnStrand([](Agent& agent) {
    v1::SealRequest seal;
    seal.set_state(kState);
    return agent.buffers().Seal(seal).ok();
  });
  Prepared();
  handles.leases().End(lease);
  hosts_[0]->OnStrand([](Agent& agent) {
    agent.buffers().GiveLost();
    return true;
  });
  EXPECT_EQ(GetErrorInfo(hosts_[0]->GetShards(1).status()).reason, "SHARDS_LENT");
  for (int h = 0; h < 2; ++h) Grant(h);
  const auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  EXPECT_EQ(GetErrorInfo(StatusFromProto(failed->failed().error())).reason, "SOURCE_LOST");
  Abort();
  const auto changed = hosts_[0]->WaitFor(v1::AttachRequest::kManifestChanged);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->manifest_changed().manifest().generation(), 1);
  EXPECT_EQ(changed->manifest_changed().manifest().phase(), v1::SHARD_PHASE_BUILDING);
  EXPECT_EQ(changed->manifest_changed().manifest().sealed_shards(), 0);
  EXPECT_EQ(GetErrorInfo(hosts_[0]->GetShards(1).status()).reason, "GENERATION_NOT_FOUND");
}

// Reads a generation, and waits for it. `answer` is used on the strand.
void Read(TestAgent& host, int64_t generation,
          std::shared_ptr<std::optional<absl::StatusOr<v1::ShardsResponse>>> answer) {
  v1::GetShardsRequest request;
  request.set_state(kState);
  request.set_generation(generation);
  request.set_wait(true);
  host.OnStrand([&](Agent& agent) {
    agent.calls().GetShards(1000 + generation, request, getuid(),
                            [answer](auto shards) { *answer = std::move(shards); });
    return true;
  });
}

// The host was sent no generation that came by a move among others.
TEST_F(AgentTest, AReadOfAGenerationThatIsElsewhereEndsWhenThePlannerSaysSo) {
  auto read = std::make_shared<std::optional<absl::StatusOr<v1::ShardsResponse>>>();
  Read(*hosts_[0], 3, read);
  const auto asked = hosts_[0]->WaitFor(v1::AttachRequest::kStateWanted);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->state_wanted().state(), kState);
  const auto report = [&](int64_t generation) {
    Command(0, [&](v1::AttachResponse& c) {
      v1::Assignment& nothing = *c.mutable_assign_state()->mutable_assignment();
      nothing.set_state(kState);
      nothing.set_generation(generation);
      nothing.set_committed(true);
    });
    return hosts_[0]->OnStrand([&](Agent&) { return read->has_value(); });
  };
  EXPECT_FALSE(report(2));
  hosts_[0]->OnStrand([](Agent& agent) {
    agent.calls().AskAgain();
    return true;
  });
  ASSERT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kStateWanted));
  ASSERT_TRUE(report(3));
  ASSERT_TRUE((*read)->ok()) << (*read)->status();
  EXPECT_EQ((*read)->value().generation(), 3);
  EXPECT_TRUE((*read)->value().shards().empty());
}

TEST_F(AgentTest, ACallThatWaitsForAStateThatIsForgottenAsksForTheNextOfItsName) {
  Allocate();
  auto read = std::make_shared<std::optional<absl::StatusOr<v1::ShardsResponse>>>();
  Read(*hosts_[0], 1, read);  // the generation is here, and not sealed yet
  Command(0, [](v1::AttachResponse& c) { c.mutable_forget_state()->set_state(kState); });
  EXPECT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kStateWanted));
  EXPECT_FALSE(hosts_[0]->OnStrand([&](Agent&) { return read->has_value(); }));
}

TEST_F(AgentTest, AWorkerThatEndsTakesPartInNothingNewAndSaysSoOfWhatRuns) {
  ReadyToMove();
  Prepared();
  const auto drain = [](bool at_once) {
    return [at_once](Agent& agent) {
      agent.Drain(at_once);
      return agent.busy();
    };
  };
  EXPECT_TRUE(hosts_[0]->OnStrand(drain(false))) << "what it is in goes on";
  EXPECT_TRUE(hosts_[0]->OnStrand(drain(true)));
  auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->failed().error().DebugString().find("WORKER_STOPS"), std::string::npos);
  Abort();
  EXPECT_FALSE(hosts_[0]->OnStrand([](Agent& agent) { return agent.busy(); }));
  EXPECT_TRUE(hosts_[0]->Right(*hosts_[0]->GetShards(1)));

  ++attempt_;
  Prepare();
  failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->failed().error().DebugString().find("WORKER_STOPS"), std::string::npos);
}

TEST_F(AgentTest, NoCallWaitsForMemoryThatIsBeingReserved) {
  ReadyToMove();
  absl::Notification go;
  hosts_[0]->files.Post([&] { go.WaitForNotification(); });
  Prepare();
  ASSERT_TRUE(hosts_[1]->WaitFor(v1::AttachRequest::kPrepared));
  // Trainers are served in the meantime.
  EXPECT_TRUE(hosts_[0]->Right(*hosts_[0]->GetShards(1)));
  EXPECT_EQ(GetErrorInfo(hosts_[0]->GetShards(2).status()).reason, "GENERATION_NOT_FOUND");
  EXPECT_EQ(GetErrorInfo(hosts_[0]->Unseal().status()).reason, "STATE_MOVING");
  go.Notify();
  ASSERT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kPrepared));
  Transfer();
  Verify();
  Commit();
  EXPECT_TRUE(hosts_[0]->Right(*hosts_[0]->GetShards(2)));
}

TEST_F(AgentTest, AnUnsealedSourceFailsTheAttempt) {
  Allocate();
  Prepare();
  const auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  EXPECT_EQ(GetErrorInfo(StatusFromProto(failed->failed().error())).reason, "SOURCE_NOT_READY");
  Abort();
}

TEST_F(AgentTest, AnotherPlansProgramFailsTheAttempt) {
  ReadyToMove();
  Command(0, [&](v1::AttachResponse& c) {
    *c.mutable_prepare()->mutable_attempt() = Attempt();
    *c.mutable_prepare()->mutable_target() = Columns(0);
    c.mutable_prepare()->set_source_generation(1);
    c.mutable_prepare()->set_fingerprint("another");
    c.mutable_prepare()->add_peers();
  });
  const auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  EXPECT_EQ(GetErrorInfo(StatusFromProto(failed->failed().error())).reason, "FINGERPRINT_MISMATCH");
}

TEST_F(AgentTest, AProgramOfADifferentPlanFailsTheAttempt) {
  ReadyToMove();
  for (auto& host : hosts_) host->program.set_plan_digest("found");
  Prepare([](v1::Prepare& prepare) { prepare.set_plan_digest("expected"); });
  const auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  EXPECT_EQ(GetErrorInfo(StatusFromProto(failed->failed().error())).reason, "PLAN_DIFFERS");
  EXPECT_EQ(hosts_[0]->plans_not_compared(), 0);
  Abort();
}

// An older server names no digest.
TEST_F(AgentTest, APlanWithoutADigestIsExecutedAndCounted) {
  Committed();
  for (auto& host : hosts_) EXPECT_EQ(host->plans_not_compared(), 1);
}

TEST_F(AgentTest, ATrainerThatWritesDuringAMoveIsCaught) {
  ReadyToMove();
  Prepared();
  Transfer();
  auto shards = hosts_[1]->GetShards(1);
  (*MappedFile::Open(shards->shards(0).path(), 1)).bytes()[0] ^= std::byte{1};
  for (int h = 0; h < 2; ++h)
    Command(h, [&](v1::AttachResponse& c) { *c.mutable_verify()->mutable_attempt() = Attempt(); });
  EXPECT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kVerified));
  const auto failed = hosts_[1]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  EXPECT_EQ(GetErrorInfo(StatusFromProto(failed->failed().error())).reason, "SOURCE_MODIFIED");
  Abort();
}

// What host 1, the origin, says of a chunk that arrived damaged at host 0.
class AgentLinkTest : public AgentTest {
 protected:
  AgentLinkTest() {
    tap_ = {.spoil = true};
    StartBoth();
  }
  std::string FoundByTheOrigin(bool writes) {
    ReadyToMove();
    Prepared();
    for (int h = 0; h < 2; ++h) Grant(h);
    const auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
    if (!failed) return "did not fail";
    EXPECT_EQ(GetErrorInfo(StatusFromProto(failed->failed().error())).reason, "DIGEST_MISMATCH");
    if (writes) {
      auto shards = hosts_[1]->GetShards(1);
      auto file = *MappedFile::Open(shards->shards(0).path(), shards->shards(0).bytes());
      for (std::byte& byte : file.bytes()) byte ^= std::byte{1};
    }
    Command(1, [&](v1::AttachResponse& c) {
      SetAbort(c);
      *c.mutable_abort()->mutable_error() = failed->failed().error();
    });
    const auto quiesced = hosts_[1]->WaitFor(v1::AttachRequest::kQuiesced);
    if (!quiesced) return "did not quiesce";
    return GetErrorInfo(StatusFromProto(quiesced->quiesced().error())).reason;
  }
};

TEST_F(AgentLinkTest, AnOriginWhoseSourceIsUnchangedBlamesNoTrainer) {
  EXPECT_EQ(FoundByTheOrigin(/*writes=*/false), "OK");
}

TEST_F(AgentLinkTest, AnOriginWhoseSourceWasWrittenSaysSo) {
  EXPECT_EQ(FoundByTheOrigin(/*writes=*/true), "SOURCE_MODIFIED");
}

}  // namespace
}  // namespace remesh::worker
