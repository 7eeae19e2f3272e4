// SPDX-License-Identifier: Apache-2.0
// What outlives an agent's process, or its planner's.
#include <gtest/gtest.h>

#include "base/error.h"
#include "service/rpc/error_info.h"
#include "worker/agent/testing/test_devices_fixture.h"

namespace remesh::worker {
namespace {

TEST_F(AgentTest, AVerifiedGenerationOutlivesTheProcessAndCommits) {
  ReadyToMove();
  Prepared();
  Transfer();
  Verify();
  hosts_[0].reset();
  StartHost(0);
  const v1::Register attaching = hosts_[0]->Attach();
  ASSERT_EQ(attaching.manifests_size(), 2);
  EXPECT_EQ(attaching.manifests(0).phase(), v1::SHARD_PHASE_READY);
  EXPECT_EQ(attaching.manifests(1).phase(), v1::SHARD_PHASE_VERIFIED);
  EXPECT_EQ(attaching.manifests(1).execution(), "jobs/a/executions/1");
  Commit();
  EXPECT_TRUE(hosts_[0]->Right(*hosts_[0]->GetShards(2)));
}

TEST_F(AgentTest, APlannerOfAnOlderEpochIsRefused) {
  ReadyToMove();
  Command(
      0, [&](v1::AttachResponse& c) { c.mutable_forget_state()->set_state(kState); }, /*epoch=*/4);
  ASSERT_EQ(hosts_[0]->disconnects.size(), 1u);
  EXPECT_EQ(GetErrorInfo(hosts_[0]->disconnects[0]).reason, "STALE_EPOCH");
  EXPECT_TRUE(hosts_[0]->GetShards(1).ok());
  hosts_[0]->Attach();
  Command(
      0, [&](v1::AttachResponse& c) { c.mutable_forget_state()->set_state(kState); }, /*epoch=*/6);
  EXPECT_FALSE(hosts_[0]->GetShards(1).ok());
}

TEST_F(AgentTest, APlannerThatComesBackIsToldAgain) {
  ReadyToMove();
  Prepared();
  Transfer();
  Command(0, [&](v1::AttachResponse& c) { c.mutable_welcome(); });
  EXPECT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kPrepared));
  const auto done = hosts_[0]->WaitFor(v1::AttachRequest::kWindowDone);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->window_done().window(), 1);
  EXPECT_EQ(done->window_done().sent_bytes(), 24);
  EXPECT_EQ(done->window_done().copied_bytes(), 24);
  Abort();
}

TEST_F(AgentTest, WhoWaitsForAStateThatIsWrittenOnceReadsItWhenItIsCommitted) {
  EXPECT_TRUE(hosts_[0]->Attach().supports_write_once());
  v1::Assignment once = Rows(0);
  once.set_state_uid("uid");
  once.set_write_once(true);
  Command(0,
          [&](v1::AttachResponse& c) { *c.mutable_assign_state()->mutable_assignment() = once; });
  ReadyToMove();
  auto shards = hosts_[0]->AwaitShards(1);
  EXPECT_EQ(GetErrorInfo(hosts_[0]->GetShards(1).status()).reason, "GENERATION_NOT_FOUND");
  const auto commit = [](v1::AttachResponse& c) {
    c.mutable_commit_write()->set_state(kState);
    c.mutable_commit_write()->set_state_uid("uid");
    c.mutable_commit_write()->set_generation(1);
    c.mutable_position()->set_leadership("first");
    c.mutable_position()->set_sequence(7);
  };
  Command(0, commit, /*epoch=*/4);
  ASSERT_EQ(hosts_[0]->disconnects.size(), 1u) << "a planner of an older epoch commits nothing";
  EXPECT_FALSE(hosts_[0]->GetShards(1).ok());
  hosts_[0]->Attach();
  Command(0, commit);
  ASSERT_TRUE(shards.get().ok());
  EXPECT_TRUE(hosts_[0]->Right(*hosts_[0]->GetShards(1)));
  EXPECT_EQ(hosts_[0]->Attach().position().sequence(), 7u) << "no journal may forget the commit";
  hosts_[0].reset();
  StartHost(0);
  EXPECT_TRUE(hosts_[0]->GetShards(1).ok());
}

// A host without shards, or one that came back without them, learns of the commit by its assignment
// alone. Regression: a server with a journal from before the commit had it filled again.
TEST_F(AgentTest, NoJournalMayForgetACommitThatAnAssignmentTold) {
  const auto assign = [&](bool committed, bool write_once, uint64_t sequence) {
    Command(0, [&](v1::AttachResponse& c) {
      v1::Assignment& assignment = *c.mutable_assign_state()->mutable_assignment();
      assignment.set_state(kState);
      assignment.set_state_uid("uid");
      assignment.set_generation(1);
      assignment.set_write_once(write_once);
      assignment.set_committed(committed);
      c.mutable_position()->set_leadership("first");
      c.mutable_position()->set_sequence(sequence);
    });
    return hosts_[0]->Attach().position().sequence();
  };
  EXPECT_EQ(assign(/*committed=*/false, /*write_once=*/true, 7), 0u) << "it may be filled again";
  EXPECT_EQ(assign(/*committed=*/true, /*write_once=*/false, 8), 0u);
  EXPECT_EQ(assign(/*committed=*/true, /*write_once=*/true, 9), 9u);
}

// Two hosts whose devices may fail.
class AgentWithGpusTest : public TestDevicesTest {
 protected:
  size_t TimesUnusable(int h) {
    return hosts_[h]->OnStrand([&](Agent&) { return hosts_[h]->unusable.size(); });
  }
  void GrantAll() {
    for (int h = 0; h < 2; ++h) Grant(h);
  }
};

TEST_F(AgentWithGpusTest, AProcessWhoseDeviceIsInErrorEnds) {
  ReadyToMove();
  Prepared();
  devices_[0]->failed = true;
  GrantAll();
  const auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  EXPECT_EQ(GetErrorInfo(service::StatusFromProto(failed->failed().error())).reason,
            "DEVICE_ERROR");
  ASSERT_EQ(TimesUnusable(0), 1u);
  EXPECT_EQ(GetErrorInfo(hosts_[0]->unusable[0]).reason, "DEVICE_ERROR");
  EXPECT_EQ(TimesUnusable(1), 0u);
  Abort();
}

TEST_F(AgentWithGpusTest, AProcessWhoseAttemptFailsGoesOn) {
  ReadyToMove();
  hosts_[0]->program.clear_tapes();
  Prepare();
  ASSERT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kFailed));
  EXPECT_EQ(TimesUnusable(0), 0u);
  ASSERT_TRUE(hosts_[1]->WaitFor(v1::AttachRequest::kPrepared));
  Abort();
}

}  // namespace
}  // namespace remesh::worker
