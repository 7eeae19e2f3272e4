// SPDX-License-Identifier: Apache-2.0
// Decisions that are repeated, taken back, or told to a worker that has moved on.
#include <gtest/gtest.h>

#include "base/error.h"
#include "service/rpc/error_info.h"
#include "worker/agent/testing/agent_fixture.h"

namespace remesh::worker {
namespace {

using AgentDecisionTest = AgentTest;

TEST_F(AgentDecisionTest, CommittedCarriesTheManifest) {
  Welcome(0, "ours");
  ReadyToMove();
  Prepared();
  Transfer();
  Verify();
  Command(0, [&](v1::AttachResponse& c) { SetCommit(c); });
  const auto said = hosts_[0]->WaitFor(v1::AttachRequest::kCommitted);
  ASSERT_TRUE(said);
  const v1::StateManifest& manifest = said->committed().manifest();
  EXPECT_EQ(manifest.generation(), 2);
  EXPECT_EQ(manifest.phase(), v1::SHARD_PHASE_READY);
  EXPECT_EQ(manifest.execution(), Attempt().execution());
  EXPECT_EQ(manifest.cluster_uid(), "ours");
  EXPECT_EQ(manifest.sealed_shards(), 1);
}

TEST_F(AgentDecisionTest, LostAcknowledgementThenUnseal) {
  Committed();
  ASSERT_TRUE(hosts_[0]->Unseal().ok());
  for (const bool restart : {false, true}) {
    if (restart) {
      hosts_[0].reset();
      StartHost(0);
    }
    Command(0, [&](v1::AttachResponse& c) { SetCommit(c); });
    const auto said = hosts_[0]->WaitFor(v1::AttachRequest::kCommitted);
    ASSERT_TRUE(said) << restart;
    EXPECT_EQ(said->committed().manifest().phase(), v1::SHARD_PHASE_BUILDING);
    EXPECT_EQ(said->committed().manifest().generation(), 2);
  }
}

TEST_F(AgentDecisionTest, ACommitOfAnotherAttemptOrStateIsRefused) {
  Committed();
  hosts_[0].reset();
  StartHost(0);
  const auto refused = [&](auto change) {
    Command(0, [&](v1::AttachResponse& c) {
      SetCommit(c);
      change(*c.mutable_commit());
    });
    const auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
    return failed ? GetErrorInfo(service::StatusFromProto(failed->failed().error())).reason : "";
  };
  EXPECT_EQ(refused([](v1::Commit& c) { c.mutable_attempt()->set_attempt(9); }), "NOT_VERIFIED");
  EXPECT_EQ(refused([](v1::Commit& c) { c.set_state_uid("another"); }), "NOT_VERIFIED");
}

TEST_F(AgentDecisionTest, OnlyADecisionTakenBackFreesWhatIsCommitted) {
  Committed();
  for (const bool unsealed : {false, true}) {
    if (unsealed) {
      ASSERT_TRUE(hosts_[0]->Unseal().ok());
    }
    Command(0, [&](v1::AttachResponse& c) { SetAbort(c); });
    EXPECT_TRUE(hosts_[0]->GetShards(2).ok());
  }
  hosts_[1].reset();
  StartHost(1);
  for (int h = 0; h < 2; ++h) {
    Command(h, [&](v1::AttachResponse& c) {
      SetAbort(c, /*even_committed=*/true);
      c.mutable_abort()->set_state_uid("another");
    });
    EXPECT_TRUE(hosts_[h]->GetShards(2).ok());
    Command(h, [&](v1::AttachResponse& c) {
      SetAbort(c, /*even_committed=*/true);
      c.mutable_abort()->mutable_attempt()->set_attempt(9);
    });
    EXPECT_TRUE(hosts_[h]->GetShards(2).ok());
  }
  Abort(/*even_committed=*/true);
  for (auto& host : hosts_) {
    EXPECT_EQ(GetErrorInfo(host->GetShards(2).status()).reason, "GENERATION_NOT_FOUND");
    EXPECT_TRUE(host->Right(*host->GetShards(1)));
  }
}

// Its last assignment is still that of generation 1. It once handed out buffers of that, which the
// planner then retired with what the trainer had written.
TEST_F(AgentDecisionTest, AHostThatGaveItsShardsAwayHandsOutNoBuffersOfTheFirstGeneration) {
  Committed();
  for (const int64_t generation : {1, 2}) {  // another move, without this host
    Command(0, [&](v1::AttachResponse& c) {
      c.mutable_retire()->set_state(kState);
      c.mutable_retire()->set_generation(generation);
    });
  }
  v1::AllocateRequest request;
  request.set_state(kState);
  EXPECT_EQ(GetErrorInfo(hosts_[0]->Allocate(request).status()).reason, "STATE_COMMITTED");
  EXPECT_FALSE(hosts_[0]->Lend(LendRows(hosts_[0]->handles, "")).ok());
  EXPECT_EQ(hosts_[0]->Attach().manifests_size(), 0);
  EXPECT_EQ(GetErrorInfo(hosts_[0]->GetShards(1).status()).reason, "GENERATION_RETIRED");
  EXPECT_EQ(GetErrorInfo(hosts_[0]->GetShards(3).status()).reason, "GENERATION_NOT_FOUND");
}

TEST_F(AgentDecisionTest, ACommitUnsetsTheWrite) {
  ReadyToMove();
  v1::SealRequest seal;
  seal.set_state(kState);
  seal.set_write("7");
  ASSERT_TRUE(hosts_[0]->OnStrand([&](Agent& agent) { return agent.buffers().Seal(seal).ok(); }));
  ASSERT_EQ(hosts_[0]->Attach().manifests_size(), 1);
  EXPECT_EQ(hosts_[0]->Attach().manifests(0).write(), "7");
  Prepared();
  Transfer();
  Verify();
  Command(0, [&](v1::AttachResponse& c) { SetCommit(c); });
  const auto said = hosts_[0]->WaitFor(v1::AttachRequest::kCommitted);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->committed().manifest().generation(), 2);
  EXPECT_EQ(said->committed().manifest().write(), "");
}

TEST_F(AgentDecisionTest, RetiredAndForgottenNameTheUid) {
  ReadyToMove();
  Command(0, [&](v1::AttachResponse& c) {
    c.mutable_retire()->set_state(kState);
    c.mutable_retire()->set_generation(1);
    c.mutable_retire()->set_state_uid("another");
  });
  const auto retired = hosts_[0]->WaitFor(v1::AttachRequest::kRetired);
  ASSERT_TRUE(retired);
  EXPECT_EQ(retired->retired().state_uid(), "another");
  EXPECT_TRUE(hosts_[0]->GetShards(1).ok());
  Command(0, [&](v1::AttachResponse& c) {
    c.mutable_forget_state()->set_state(kState);
    c.mutable_forget_state()->set_state_uid("another");
  });
  const auto forgotten = hosts_[0]->WaitFor(v1::AttachRequest::kForgotten);
  ASSERT_TRUE(forgotten);
  EXPECT_EQ(forgotten->forgotten().state_uid(), "another");
  EXPECT_TRUE(hosts_[0]->GetShards(1).ok());
}

}  // namespace
}  // namespace remesh::worker
