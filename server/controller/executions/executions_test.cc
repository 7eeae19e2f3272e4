// SPDX-License-Identifier: Apache-2.0
// Executions and how they start, without what workers hold of other generations.
#include "server/controller/testing/executions_test_world.h"

namespace remesh::server {
namespace {

using ExecutionsTest = ExecutionsTestWorld;

TEST_F(ExecutionsTest, AStartReservesItsStateUntilItIsPlanned) {
  starts_.Start(1, Request("id"), now_, out_);
  EXPECT_TRUE(starts_.reserves(kState));
  starts_.Start(2, Request("other"), now_, out_);
  EXPECT_EQ(GetErrorInfo(Replies(2).at(0).status()).reason, "STATE_MOVING");
  starts_.Start(3, Request("id"), now_, out_);
  EXPECT_TRUE(Replies(3).empty());  // it joins
  const Planned refused{.id = Did<StartPlanning>().at(0).id, .move = absl::DataLossError("no")};
  EXPECT_FALSE(starts_.OnPlanned(refused, now_, out_).has_value());
  EXPECT_FALSE(starts_.reserves(kState));
  EXPECT_EQ(Replies(1).at(0).status(), absl::DataLossError("no"));
  EXPECT_EQ(Replies(3).at(0).status(), absl::DataLossError("no"));
}

TEST_F(ExecutionsTest, AnExecutionIsAnsweredAndStartsOnceItIsOnDisk) {
  const std::string name = Launch();
  EXPECT_TRUE(Replies(10).empty());
  EXPECT_TRUE(Did<SendToWorker>().empty());
  Stored(name);
  EXPECT_TRUE(Replies(10).at(0).ok());
  EXPECT_EQ(Sent(1, v1::AttachResponse::kPrepare), 1);
  EXPECT_EQ(Sent(2, v1::AttachResponse::kPrepare), 1);
}

TEST_F(ExecutionsTest, ItsEndIsToldAsAValue) {
  const std::string name = Launch();
  Stored(name);
  Send(name, [](v1::AttachRequest& message) { return message.mutable_prepared(); });
  Send(name, [](v1::AttachRequest& message) { return message.mutable_verified(); });
  EXPECT_FALSE(executions_.OnSaved(LastSave(), now_, out_).has_value());  // the decision
  SendCommitted(name);
  const std::optional<ExecutionEnd> end = executions_.OnSaved(LastSave(), now_, out_);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->state, kState);
  EXPECT_EQ(end->generation, 2);
  EXPECT_TRUE(end->target->hosts.contains("b"));
  EXPECT_TRUE(executions_.running().empty());
  EXPECT_EQ(Did<ExecutionEnded>().at(0).phase, v1::Execution::SUCCEEDED);
  EXPECT_EQ(Did<ReleasePlan>().size(), 1u);
  EXPECT_EQ(Find()->generation(), 1);  // it is for others to tell the states
}

// Regression: it counted, though nothing said that the host had its shards.
TEST_F(ExecutionsTest, ACommittedOfAReceiverThatHoldsNothingDoesNotCount) {
  const std::string name = Launch();
  Stored(name);
  Send(name, [](v1::AttachRequest& message) { return message.mutable_prepared(); });
  Send(name, [](v1::AttachRequest& message) { return message.mutable_verified(); });
  EXPECT_FALSE(executions_.OnSaved(LastSave(), now_, out_).has_value());  // the decision
  Send(name, [](v1::AttachRequest& message) { return message.mutable_committed(); });
  EXPECT_TRUE(out_.TakeFollowUps().empty());
  EXPECT_EQ((*FindExecution(executions_, name))->execution.resource().phase(),
            v1::Execution::COMMITTING);
  // Regression: the host was not asked again before it registered again.
  const size_t told = Did<SendToWorker>().size();
  now_.steady += std::chrono::seconds(1);
  executions_.OnTick(name, now_, out_);
  ASSERT_GT(Did<SendToWorker>().size(), told);
  EXPECT_TRUE(Did<SendToWorker>().back().message.has_commit());
  SendCommitted(name);
  EXPECT_TRUE(executions_.OnSaved(LastSave(), now_, out_).has_value());
}

TEST_F(ExecutionsTest, ItsEndCarriesWhatMetricsCount) {
  const std::string name = Launch("b", /*windows=*/1);
  Stored(name);
  Send(name, [](v1::AttachRequest& message) { return message.mutable_prepared(); });
  Send(name, [](v1::AttachRequest& message) {
    message.mutable_window_done()->set_received_bytes(100);
    message.mutable_window_done()->set_copied_bytes(7);
    return message.mutable_window_done();
  });
  Send(name, [](v1::AttachRequest& message) { return message.mutable_verified(); });
  executions_.OnSaved(LastSave(), now_, out_);
  now_.wall += absl::Seconds(3);
  SendCommitted(name);
  executions_.OnSaved(LastSave(), now_, out_);
  const ExecutionEnded ended = Did<ExecutionEnded>().at(0);
  EXPECT_EQ(ended.seconds, 3);
  EXPECT_EQ(ended.bytes_moved, 200);
  EXPECT_EQ(ended.copied_bytes, 14);
}

TEST_F(ExecutionsTest, AMoveThatSucceedsTellsWhatWasPredictedAndWhatItTook) {
  const std::string name = Launch("b", /*windows=*/0, /*predicted_seconds=*/0.5);
  Stored(name);
  Send(name, [](v1::AttachRequest& message) { return message.mutable_prepared(); });
  now_.wall += absl::Seconds(2);
  Send(name, [](v1::AttachRequest& message) { return message.mutable_verified(); });
  executions_.OnSaved(LastSave(), now_, out_);
  now_.wall += absl::Seconds(1);  // until all have committed: no transfer
  SendCommitted(name);
  executions_.OnSaved(LastSave(), now_, out_);
  const ExecutionEnded ended = Did<ExecutionEnded>().at(0);
  EXPECT_EQ(ended.predicted_seconds, 0.5);
  EXPECT_EQ(ended.transfer_seconds, 2);
}

TEST_F(ExecutionsTest, AMoveThatFailsTellsNothingOfThePrediction) {
  const std::string name = Launch("b", /*windows=*/1, /*predicted_seconds=*/0.5);
  Stored(name);
  Send(name, [](v1::AttachRequest& message) { return message.mutable_prepared(); });
  executions_.OnHostAway({.host = "b", .why = absl::UnavailableError("gone")}, now_, out_);
  Send(name, [](v1::AttachRequest& message) { return message.mutable_quiesced(); });
  executions_.OnSaved(LastSave(), now_, out_);
  const ExecutionEnded ended = Did<ExecutionEnded>().at(0);
  EXPECT_EQ(ended.phase, v1::Execution::FAILED);
  EXPECT_EQ(ended.predicted_seconds, 0);
  EXPECT_EQ(ended.transfer_seconds, 0);
}

TEST_F(ExecutionsTest, BytesThatHostsClaimDoNotWrap) {
  const std::string name = Launch("b", /*windows=*/1);
  Stored(name);
  Send(name, [](v1::AttachRequest& message) { return message.mutable_prepared(); });
  Send(name, [](v1::AttachRequest& message) {
    message.mutable_window_done()->set_received_bytes(INT64_MAX);
    return message.mutable_window_done();
  });
  Send(name, [](v1::AttachRequest& message) { return message.mutable_verified(); });
  executions_.OnSaved(LastSave(), now_, out_);
  SendCommitted(name);
  executions_.OnSaved(LastSave(), now_, out_);
  EXPECT_GT(Did<ExecutionEnded>().at(0).bytes_moved, 1e19);
}

TEST_F(ExecutionsTest, ALostHostFailsItAndTheStateStays) {
  const std::string name = Launch();
  Stored(name);
  membership_.EndStream(2, now_, out_);
  executions_.OnHostAway({.host = "b", .why = absl::UnavailableError("gone")}, now_, out_);
  EXPECT_EQ(Sent(1, v1::AttachResponse::kAbort), 1);
  Send(name, [](v1::AttachRequest& message) { return message.mutable_quiesced(); });
  const std::optional<ExecutionEnd> end = executions_.OnSaved(LastSave(), now_, out_);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->target, nullptr);
  EXPECT_EQ(executions_.Find(name)->execution.resource().phase(), v1::Execution::FAILED);
}

// Hosts that exchange by NCCL.
class ExecutionsOverNcclTest : public ExecutionsTest {
 protected:
  void SetUp() override {
    for (const char* host : {"a", "b"}) {
      v1::Register registration = Registration(host);
      registration.add_data_addresses()->set_transport("nccl");
      Attach(registration);
    }
    uid_ = Create({"a"});
    membership_.Hold("a", Manifest(kState, uid_, 1));
    Clear();
  }

  // The communicators in the last two Prepares, if they are the same.
  v1::Communicators Named() {
    std::vector<v1::Communicators> named;
    for (const SendLater& later : Did<SendLater>()) {
      named.push_back(later.commands.make().back().prepare().communicators());
    }
    EXPECT_GE(named.size(), 2u);
    const v1::Communicators last = named.back(), other = named[named.size() - 2];
    EXPECT_EQ(last.SerializeAsString(), other.SerializeAsString()) << "all or none";
    return last;
  }
  // Runs an execution from its start to the hosts' reports of the communicators that they keep.
  void Succeed(const std::string& name, const std::string& kept) {
    Send(name, [](v1::AttachRequest& message) { return message.mutable_prepared(); });
    Send(name, [](v1::AttachRequest& message) { return message.mutable_verified(); });
    executions_.OnSaved(LastSave(), now_, out_);
    membership_.Hold("b", Manifest(kState, uid_, 2));
    Send(name, [&](v1::AttachRequest& message) {
      message.mutable_committed()->mutable_communicators()->set_name(kept);
      message.mutable_committed()->mutable_communicators()->mutable_kept_for()->set_seconds(60);
      return message.mutable_committed();
    });
    const auto end = executions_.OnSaved(LastSave(), now_, out_);
    ASSERT_TRUE(end.has_value());
    // The state itself stays where it was: that is for others.
    states_.EndExecution({.state = kState}, out_);
  }
};

TEST_F(ExecutionsOverNcclTest, TheNextOneIsToldToReuseWhatAllHaveKept) {
  std::string name = Launch();
  Stored(name);
  const v1::Communicators first = Named();
  EXPECT_FALSE(first.name().empty());
  EXPECT_FALSE(first.reuse());
  Succeed(name, first.name());
  name = Launch();
  Stored(name);
  const v1::Communicators second = Named();
  EXPECT_EQ(second.name(), first.name());
  EXPECT_TRUE(second.reuse());
}

TEST_F(ExecutionsOverNcclTest, WhoKeepsThoseOfAHostThatIsAwayIsToldToDropThem) {
  const std::string name = Launch();
  Stored(name);
  const std::string kept = Named().name();
  Succeed(name, kept);
  membership_.EndStream(2, now_, out_);
  executions_.OnHostAway({.host = "b", .why = absl::UnavailableError("gone")}, now_, out_);
  EXPECT_EQ(Sent(1, v1::AttachResponse::kDropCommunicators), 1);
  EXPECT_EQ(Did<SendToWorker>().back().message.drop_communicators().name(), kept);
}

// Regression: a thousand moves of one job, which may take only a minute, drove out the record of
// another job's execution.
TEST_F(ExecutionsTest, AJobThatStartsManyDrivesOutItsOwnOnly) {
  options_.finished_executions_max = 4;
  Restored restored;
  for (const char* name :
       {"jobs/calm/executions/1", "jobs/calm/executions/2", "jobs/busy/executions/3",
        "jobs/busy/executions/4", "jobs/busy/executions/5", "jobs/busy/executions/6"}) {
    v1::Execution& ended = restored.executions.emplace_back();
    ended.set_name(name);
    ended.set_phase(v1::Execution::SUCCEEDED);
    ended.mutable_create_time()->set_seconds(static_cast<int64_t>(restored.executions.size()));
    ended.mutable_end_time()->set_seconds(100);
  }
  executions_.Restore(restored, now_, out_);
  executions_.Proceed(now_, out_);
  std::vector<std::string> kept;
  for (const auto& [name, entry] : executions_.entries()) kept.push_back(name);
  EXPECT_EQ(kept, (std::vector<std::string>{"jobs/busy/executions/5", "jobs/busy/executions/6",
                                            "jobs/calm/executions/1", "jobs/calm/executions/2"}));
}

TEST_F(ExecutionsTest, WhoDoesNotQuiesceIsToldOfByName) {
  const std::string name = Launch();
  Stored(name);
  executions_.Cancel(5, name, now_, out_);
  EXPECT_TRUE(Replies(5).at(0).ok());
  EXPECT_TRUE(executions_.OnTick(name, now_, out_).empty());
  now_.steady += options_.quiesce_timeout;
  const std::vector<HostAway> late = executions_.OnTick(name, now_, out_);
  ASSERT_EQ(late.size(), 2u);
  EXPECT_EQ(late[0].host, "a");
  EXPECT_EQ(GetErrorInfo(late[0].why).reason, "NOT_QUIESCED");
}

}  // namespace
}  // namespace remesh::server
