// SPDX-License-Identifier: Apache-2.0
// Executions around the commit: hosts that lose what they have acknowledged, and how operators end
// such executions.
#include "server/controller/testing/controller_moves_test_world.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

// Regression: the growth by many concurrent moves counted only after they had committed.
TEST_F(ControllerMovesTest, AJobsMovesThatRunCountTowardsItsBytes) {
  const std::string other = "jobs/j/states/other";
  CreateState create{.request = {}, .placed = WithBytes({"a", "b"}, 10)};
  create.request.mutable_state()->set_name(other);
  const auto created = replies_.at(Ask(create));
  const std::string uid = std::get<v1::State>(*created).uid();
  for (const StreamId stream : {a_, b_}) Seal(stream, Manifest(uid, 1, other));
  Handle(Reconfigure{.call = ++last_call_,
                     .options = std::make_shared<LiveOptions>(
                         LiveOptions{.states_max = 10, .bytes_per_job = 100})});
  EXPECT_TRUE(TryMove(1, kState, {"a", "b"}, 0, 60).ok());  // from 0
  EXPECT_EQ(GetErrorInfo(TryMove(1, other, {"a", "b"}, 0, 41).status()).reason, "JOB_QUOTA");
  create.request.mutable_state()->set_name("jobs/j/states/third");
  create.placed = WithBytes({"a"}, 31);
  EXPECT_EQ(GetErrorInfo(replies_.at(Ask(create)).status()).reason, "JOB_QUOTA");
  EXPECT_TRUE(TryMove(1, other, {"a", "b"}, 0, 40).ok());
}

TEST_F(ControllerMovesTest, TheSourceIsRetiredWhenEveryHostHasSaidThatItHoldsTheTarget) {
  const std::string name = UntilCommitting();
  Answer(a_, v1::AttachRequest::kCommitted, name);
  EXPECT_EQ(Count(a_, Command::kRetire), 0);
  Answer(b_, v1::AttachRequest::kCommitted, name);
  EXPECT_EQ(Phase(name), v1::Execution::SUCCEEDED);
  EXPECT_EQ(Count(a_, Command::kRetire), 1);
  EXPECT_EQ(Count(b_, Command::kRetire), 1);
  EXPECT_EQ(Get().phase(), v1::State::READY);
  EXPECT_GT(sent_[a_].back().position().sequence(), 0u);
}

// Windows may take longer than stall_timeout; slices do not.
TEST_F(ControllerMovesTest, AMoveStallsWhenNoneOfItsHostsFinishesASlice) {
  windows_ = 3;
  const std::string name = StartMove();
  for (const StreamId stream : {a_, b_}) Answer(stream, v1::AttachRequest::kPrepared, name);
  const auto pass = [&](int seconds, const std::vector<uint64_t>& slices) {
    v1::AttachRequest beat;
    for (int second = 0; second < seconds; ++second) {
      now_.steady += std::chrono::seconds(1);
      for (size_t i = 0; i < slices.size(); ++i) {
        beat.mutable_heartbeat()->set_progress(++beats_);
        beat.mutable_heartbeat()->set_slices(slices[i] == 2 ? beats_ : slices[i]);
        Send(i == 0 ? a_ : b_, beat);
      }
      Handle(Tick{});
    }
    return Phase(name);
  };
  EXPECT_EQ(pass(70, {1, 2}), v1::Execution::TRANSFERRING) << "b's rise";
  EXPECT_EQ(pass(59, {1, 0}), v1::Execution::TRANSFERRING);
  pass(2, {1, 0});
  EXPECT_EQ(Count(a_, Command::kAbort), 1);
  EXPECT_EQ(GetErrorInfo(service::StatusFromProto(sent_[b_].back().abort().error())).reason,
            "LINK_STALLED");
}

// Two moves, each on devices of its own of the same hosts.
class TwoMovesTest : public ControllerMovesTest {
 protected:
  static constexpr char kOther[] = "jobs/j/states/other";

  void SetUp() override {
    ControllerMovesTest::SetUp();
    CreateState create{.request = {}, .placed = Place(SpecOn({"a", "b"}))};
    create.request.mutable_state()->set_name(kOther);
    const v1::State other = std::get<v1::State>(*replies_.at(Ask(std::move(create))));
    for (const char* host : {"a", "b"}) {
      v1::Register registration = Identity(host);
      registration.add_devices()->set_id(host[0] + 100);
      *registration.add_manifests() = Manifest(uid_, 1);
      *registration.add_manifests() = Manifest(other.uid(), 1, kOther);
      (*host == 'a' ? a_ : b_) = Attach(registration);
    }
    windows_ = 3;
    first_ = StartMove();
    second_ = StartMove(1, kOther, {"a", "b"}, 1);
    for (const std::string& name : {first_, second_}) {
      for (const StreamId stream : {a_, b_}) Answer(stream, v1::AttachRequest::kPrepared, name);
      ASSERT_EQ(Phase(name), v1::Execution::TRANSFERRING);
    }
  }

  // A heartbeat a second of both hosts, with what `fill` adds.
  template <typename Fill>
  void Beat(int seconds, Fill fill) {
    for (int second = 0; second < seconds; ++second) {
      now_.steady += std::chrono::seconds(1);
      v1::AttachRequest message;
      message.mutable_heartbeat()->set_progress(++beats_);
      message.mutable_heartbeat()->set_slices(beats_);
      fill(*message.mutable_heartbeat());
      for (const StreamId stream : {a_, b_}) Send(stream, message);
      Handle(Tick{});
    }
  }
  void AddSlices(v1::Heartbeat& beat, const std::string& name, uint64_t slices) {
    v1::AttemptSlices& reported = *beat.add_attempts();
    *reported.mutable_attempt() = Attempt(name);
    reported.set_slices(slices);
  }
  bool Aborted(const std::string& name) {
    for (const Command& command : sent_[a_]) {
      if (command.abort().attempt().execution() != name) continue;
      const absl::Status why = service::StatusFromProto(command.abort().error());
      EXPECT_EQ(GetErrorInfo(why).reason, "LINK_STALLED");
      return true;
    }
    return false;
  }

  std::string first_, second_;
};

// Regression: slices were counted for each worker, so that a move of other devices of the hosts hid
// the stall.
TEST_F(TwoMovesTest, AMoveThatStallsIsSeenBesideAnotherOnItsHosts) {
  const auto beat = [this](v1::Heartbeat& beat) {
    AddSlices(beat, first_, 5);
    AddSlices(beat, second_, beats_);
  };
  Beat(60, beat);
  EXPECT_FALSE(Aborted(first_));
  Beat(3, beat);
  EXPECT_TRUE(Aborted(first_));
  EXPECT_FALSE(Aborted(second_));
  EXPECT_EQ(Phase(second_), v1::Execution::TRANSFERRING);
}

TEST_F(TwoMovesTest, TheCounterOfAnOlderWorkerCountsForAllItsMoves) {
  Beat(70, [](v1::Heartbeat&) {});
  EXPECT_EQ(Phase(first_), v1::Execution::TRANSFERRING);
  EXPECT_EQ(Phase(second_), v1::Execution::TRANSFERRING);
  Beat(63, [](v1::Heartbeat& beat) { beat.set_slices(7); });
  EXPECT_TRUE(Aborted(first_));
  EXPECT_TRUE(Aborted(second_));
}

TEST_F(TwoMovesTest, SlicesOfUnknownAttemptsAndCountsThatFallAreNoProgress) {
  Beat(1, [this](v1::Heartbeat& beat) { AddSlices(beat, first_, 1'000'000); });
  Beat(63, [this](v1::Heartbeat& beat) {
    AddSlices(beat, "jobs/j/executions/unknown", beats_);
    AddSlices(beat, first_, 1000 + beats_);
    AddSlices(beat, second_, beats_);
    beat.mutable_attempts(2)->mutable_attempt()->set_attempt(2);
    beat.add_attempts();
  });
  EXPECT_TRUE(Aborted(first_));
  EXPECT_TRUE(Aborted(second_));
}

TEST_F(TwoMovesTest, AHeartbeatOfTooManyAttemptsIsReadToItsLimit) {
  Beat(63, [this](v1::Heartbeat& beat) {
    AddSlices(beat, first_, beats_);
    for (int i = 0; i < 5000; ++i) AddSlices(beat, "jobs/j/executions/unknown", beats_);
    AddSlices(beat, second_, beats_);
  });
  EXPECT_FALSE(Aborted(first_));
  EXPECT_TRUE(Aborted(second_));
}

TEST_F(ControllerMovesTest, AHostWipedAfterItsAcknowledgementKeepsTheSourceAlive) {
  const std::string name = UntilCommitting();
  Answer(a_, v1::AttachRequest::kCommitted, name);
  const StreamId back = Attach("a");  // with nothing
  Answer(b_, v1::AttachRequest::kCommitted, name);
  EXPECT_EQ(Phase(name), v1::Execution::COMMITTING);  // was: SUCCEEDED
  EXPECT_EQ(Count(b_, Command::kRetire), 0);
  EXPECT_EQ(Count(back, Command::kRetire), 0);
  EXPECT_EQ(Resolve(name), "SOURCE_NOT_WHOLE");  // a's part of it is gone too
  Delete();                                      // the way out
  EXPECT_EQ(Forgotten(b_), std::vector<std::string>{uid_});
  EXPECT_EQ(Phase(name), v1::Execution::FAILED);
}

// Regression: it wedged when the host came back before the decision was on disk. Only the same life
// of its worker can: another is written first.
TEST_F(ControllerMovesTest, AStateWhoseReceiverIsWipedWhileTheDecisionIsWrittenCanBeDeleted) {
  v1::Register registration = Identity("a");
  *registration.add_manifests() = Manifest(uid_, 1);
  a_ = Attach(registration);
  const std::string name = StartMove();
  for (const StreamId stream : {a_, b_}) Answer(stream, v1::AttachRequest::kPrepared, name);
  disk_stops_ = true;
  for (const StreamId stream : {a_, b_}) Answer(stream, v1::AttachRequest::kVerified, name);
  registration.clear_manifests();
  const StreamId back = Attach(registration);
  EXPECT_EQ(Count(back, Command::kWelcome), 1);
  disk_stops_ = false;
  Write();
  EXPECT_EQ(Phase(name), v1::Execution::COMMITTING);
  EXPECT_EQ(Count(back, Command::kCommit), 0);
  Answer(b_, v1::AttachRequest::kCommitted, name);
  EXPECT_EQ(Resolve(name), "SOURCE_NOT_WHOLE");
  Delete();
  EXPECT_EQ(Phase(name), v1::Execution::FAILED);
  EXPECT_EQ(Forgotten(b_), std::vector<std::string>{uid_});
}

// The host's machine goes down right after the end: the previous generation can still rebuild the
// state.
TEST_F(ControllerMovesTest, NothingIsRetiredWhileAHostOfTheTargetIsAway) {
  const std::string name = UntilCommitting();
  Answer(a_, v1::AttachRequest::kCommitted, name);
  disk_stops_ = true;
  Answer(b_, v1::AttachRequest::kCommitted, name);
  Handle(StreamEnded{a_});
  disk_stops_ = false;
  Write();
  EXPECT_EQ(Phase(name), v1::Execution::SUCCEEDED);
  EXPECT_EQ(Count(b_, Command::kRetire), 0);
  EXPECT_EQ(OwedBy("b").size(), 1u);
  const StreamId back = Attach("a", {Manifest(uid_, 1), Written(2, name)});
  EXPECT_EQ(Count(back, Command::kRetire), 1);
  EXPECT_EQ(Count(b_, Command::kRetire), 1);
  EXPECT_TRUE(OwedBy("b").empty());
}

TEST_F(ControllerMovesTest, ALostCommitAcknowledgementAndAnUnsealDoNotWedge) {
  const std::string name = UntilCommitting();
  Answer(a_, v1::AttachRequest::kCommitted, name);
  // b committed, its answer was lost, and its trainer has unsealed since.
  const StreamId back =
      Attach("b", {Manifest(uid_, 1), Written(2, name, v1::SHARD_PHASE_BUILDING)});
  ASSERT_EQ(Count(back, Command::kCommit), 1);  // was: never
  Answer(back, v1::AttachRequest::kCommitted, name);
  EXPECT_EQ(Phase(name), v1::Execution::SUCCEEDED);
}

// Regression: the host's return ended the move, and the journal got that.
TEST_F(ControllerMovesTest, AGiverThatReturnsToAJournalThatIsBehindWritesNothing) {
  const std::string name = StartMove(1, kState, {"b"});
  for (const auto kind : {v1::AttachRequest::kPrepared, v1::AttachRequest::kVerified}) {
    for (const StreamId stream : {a_, b_}) Answer(stream, kind, name);
  }
  Answer(b_, v1::AttachRequest::kCommitted, name);
  AttachWitness("b");
  const auto before = disk_;
  Attach("a", {Manifest(uid_, 1)});
  EXPECT_EQ(disk_, before);
  EXPECT_EQ(Phase(name), v1::Execution::COMMITTING);
}

TEST_F(ControllerMovesTest, WhatFollowsFromAWriteWritesNothingOnceTheJournalIsBehind) {
  options_.finished_executions_max = 0;
  StartServer();
  a_ = Attach("a", {Manifest(uid_, 1)});
  b_ = Attach("b", {Manifest(uid_, 1)});
  const std::string name = UntilCommitting();
  disk_stops_ = true;
  for (const StreamId stream : {a_, b_}) Answer(stream, v1::AttachRequest::kCommitted, name);
  AttachWitness("b");
  disk_stops_ = false;
  Write();  // then the old execution would be dropped
  v1::Execution dropped;
  dropped.set_name(name);
  EXPECT_TRUE(disk_.contains(ExecutionRecord(dropped).key));
}

TEST_F(ControllerMovesTest, AnOperatorKeepsTheSourceWhileItIsWhole) {
  const std::string name = UntilCommitting();
  EXPECT_EQ(Resolve("jobs/j/executions/none"), "NOT_FOUND");
  Answer(b_, v1::AttachRequest::kCommitted, name);
  Attach("a", {Manifest(uid_, 1)});  // lost its part of the target only
  EXPECT_EQ(Phase(name), v1::Execution::COMMITTING);
  EXPECT_EQ(Resolve(name), "OK");
  const v1::Execution& answer = std::get<v1::Execution>(*replies_.at(last_call_));
  EXPECT_EQ(answer.phase(), v1::Execution::FAILED);  // was: COMMITTING
  EXPECT_EQ(Phase(name), v1::Execution::FAILED);
  ASSERT_EQ(Count(b_, Command::kAbort), 1);
  EXPECT_TRUE(sent_[b_].back().abort().even_committed());
  EXPECT_EQ(Get().phase(), v1::State::READY);
  EXPECT_EQ(Get().generation(), 1);
  EXPECT_EQ(Resolve(name), "NOT_COMMITTING");
  // A host that was away is told when it comes back, also after a restart; no later generation gets
  // the same number.
  StartServer();
  const StreamId late = Attach("b", {Manifest(uid_, 1), Written(2, name)});
  EXPECT_EQ(Count(late, Command::kAbort), 1);
  Attach("a", {Manifest(uid_, 1)});
  EXPECT_EQ(Get().phase(), v1::State::READY);
  const std::string next = StartMove();
  v1::GetExecutionRequest get;
  get.set_name(next);
  EXPECT_EQ(std::get<v1::Execution>(*replies_.at(Ask(get))).target_generation(), 3);
}

TEST_F(ControllerMovesTest, WhoResolvesIsAnsweredWhenThatIsDurable) {
  v1::ResolveExecutionRequest request;
  request.set_name(UntilCommitting());
  request.set_resolution(v1::ResolveExecutionRequest::KEEP_SOURCE);
  disk_stops_ = true;
  const CallId call = Ask(request);
  EXPECT_FALSE(replies_.contains(call));
  disk_stops_ = false;
  Write();
  EXPECT_TRUE(replies_.at(call).ok());
}

TEST_F(ControllerMovesTest, AReceiverThatDiesAfterTheDecisionHoldsUpNoOtherJob) {
  UntilCommitting();
  CreateState create{.request = {}, .placed = Place(SpecOn({"a", "b"}))};
  create.request.mutable_state()->set_name("jobs/j/states/other");
  const std::string uid = std::get<v1::State>(*replies_.at(Ask(create))).uid();
  Seal(a_, Manifest(uid, 1, "jobs/j/states/other"));
  Seal(b_, Manifest(uid, 1, "jobs/j/states/other"));
  const int before = Count(b_, Command::kPrepare);
  StartMove(1, "jobs/j/states/other");                  // on the same devices
  EXPECT_EQ(Count(b_, Command::kPrepare), before + 1);  // was: queued forever
}

// The host was cut off while it reserved memory, and the server restarted in the meantime.
TEST_F(ControllerMovesTest, AnAttemptThatFailedWithoutItsHostIsEndedWhenItComesBack) {
  const std::string name = StartMove();
  StartServer();
  StartServer();
  ASSERT_EQ(Phase(name), v1::Execution::FAILED);
  v1::Register registration = Identity("a");
  *registration.add_manifests() = Manifest(uid_, 1);
  *registration.add_attempts() = Attempt(name);
  const StreamId back = Attach(registration);
  ASSERT_EQ(Count(back, Command::kAbort), 1);
  EXPECT_EQ(sent_[back][1].abort().attempt().execution(), name);
}

// No trainer can write again what a move has written.
TEST_F(ControllerMovesTest, AHostThatIsMissedIsNamed) {
  const std::string name = UntilCommitting();
  for (const StreamId stream : {a_, b_}) Answer(stream, v1::AttachRequest::kCommitted, name);
  const auto missed = [this] {
    const absl::Status refusal = TryMove(2, kState, {"a", "b"}).status();
    EXPECT_EQ(GetErrorInfo(refusal).reason, "STATE_NOT_READY") << refusal;
    const std::string message(refusal.message());
    EXPECT_NE(message.find("; away, or back without its shards: b"), message.npos) << message;
    return GetErrorInfo(refusal).metadata["lost_hosts"];
  };
  Handle(StreamEnded{b_});
  EXPECT_EQ(missed(), "b");
  warnings_.clear();
  Attach("b");
  const std::string line = absl::StrCat(kState, " is LOST: host b came back without its shards");
  EXPECT_EQ(warnings_, std::vector<std::string>{line});
  EXPECT_EQ(missed(), "b");
  warnings_.clear();
  Attach("b", {Written(2, name)});
  EXPECT_EQ(warnings_, std::vector<std::string>());
}

// Regression: the code was FAILED_PRECONDITION, while StartExecution answered ABORTED.
TEST_F(ControllerMovesTest, AMovingStateIsNotDeletedAndTheMoveIsNamed) {
  const std::string name = UntilCommitting();
  v1::DeleteStateRequest request;
  request.set_name(kState);
  const absl::Status refusal = replies_.at(Ask(request)).status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(GetErrorInfo(refusal).reason, "STATE_MOVING");
  EXPECT_EQ(GetErrorInfo(refusal).metadata["execution"], name);
}

// A host's machine is lost for good: neither the target nor the source will be whole again.
TEST_F(ControllerMovesTest, AStateWhoseReceiverNeverComesBackCanBeDeleted) {
  const std::string name = UntilCommitting();
  Answer(a_, v1::AttachRequest::kCommitted, name);
  Handle(StreamEnded{b_});
  EXPECT_EQ(Resolve(name), "SOURCE_NOT_WHOLE");
  Delete();  // was: STATE_MOVING
  EXPECT_EQ(Forgotten(a_), std::vector<std::string>{uid_});
}

// The server may die between two transactions: a state that is not deleted must keep what is
// committed.
TEST_F(ControllerMovesTest, GivingUpACommitForADeletionIsWrittenWithTheDeletion) {
  const std::string name = UntilCommitting();
  Answer(a_, v1::AttachRequest::kCommitted, name);
  Handle(StreamEnded{b_});
  disk_stops_ = true;
  v1::DeleteStateRequest request;
  request.set_name(kState);
  const CallId call = Ask(request);
  pending_.erase(pending_.begin() + 1, pending_.end());  // never written
  Write();
  EXPECT_EQ(Count(a_, Command::kAbort), 1);
  EXPECT_FALSE(replies_.contains(call));
  disk_stops_ = false;
  StartServer();
  v1::GetStateRequest get;
  get.set_name(kState);
  EXPECT_TRUE(absl::IsNotFound(replies_.at(Ask(get)).status()));  // was: READY, without its target
}

// c committed, the decision was taken back, and a later one made; then c comes back.
TEST_F(ControllerMovesTest, WhatWasTakenBackDoesNotMakeALaterGenerationLost) {
  const StreamId c = Attach("c");
  const auto until_committing = [&](const std::string& name, const std::vector<StreamId>& hosts,
                                    int64_t generation) {
    for (const auto kind : {v1::AttachRequest::kPrepared, v1::AttachRequest::kVerified}) {
      for (const StreamId stream : hosts) Answer(stream, kind, name, generation);
    }
  };
  const std::string first = StartMove(1, kState, {"a", "c"});
  until_committing(first, {a_, b_, c}, 2);
  Answer(c, v1::AttachRequest::kCommitted, first);
  Handle(StreamEnded{c});
  ASSERT_EQ(Resolve(first), "OK");
  const std::string second = StartMove(1);
  until_committing(second, {a_, b_}, 3);
  for (const StreamId stream : {a_, b_}) Answer(stream, v1::AttachRequest::kCommitted, second, 3);
  ASSERT_EQ(Get().phase(), v1::State::READY);
  const StreamId back = Attach("c", {Written(2, first)});
  EXPECT_EQ(Get().phase(), v1::State::READY);  // was: LOST
  EXPECT_EQ(Count(back, Command::kRetire), 1);
}

TEST_F(ControllerMovesTest, AHostThatACommitWaitsForIsNotForgotten) {
  const StreamId c = Attach("c");
  const std::string name = StartMove(1, kState, {"a", "c"});
  for (const auto kind : {v1::AttachRequest::kPrepared, v1::AttachRequest::kVerified}) {
    for (const StreamId stream : {a_, b_, c}) Answer(stream, kind, name);
  }
  Handle(StreamEnded{c});
  v1::ForgetWorkerRequest forget;
  forget.set_name("workers/c");
  EXPECT_EQ(GetErrorInfo(replies_.at(Ask(forget)).status()).reason, "WORKER_HOLDS_SHARDS");
  EXPECT_EQ(Refused(Attach(WithOtherSecret(Identity("c")))), "HOST_SECRET");
  EXPECT_EQ(Refused(Attach("c", {Written(2, name, v1::SHARD_PHASE_VERIFIED)})), "");
}

TEST_F(ControllerMovesTest, ADrainedHostIsNoTargetButGivesWhatItHas) {
  Drain("b");
  const auto refused = TryMove(1, kState, {"a", "b"});
  EXPECT_EQ(GetErrorInfo(refused.status()).reason, "HOST_DRAINED");
  EXPECT_EQ(GetErrorInfo(refused.status()).metadata["host"], "b");
  EXPECT_TRUE(TryMove(1, kState, {"a"}).ok());
}

TEST_F(ControllerMovesTest, AMoveThatRunsGoesOnWhenItsHostIsDrained) {
  const std::string name = StartMove();
  Drain("a");
  for (const auto kind : {v1::AttachRequest::kPrepared, v1::AttachRequest::kVerified}) {
    for (const StreamId stream : {a_, b_}) Answer(stream, kind, name);
  }
  EXPECT_EQ(Phase(name), v1::Execution::COMMITTING);
}

}  // namespace
}  // namespace remesh::server
