// SPDX-License-Identifier: Apache-2.0
// Executions around the commit: hosts that lose what they have acknowledged, and how operators end
// such executions.
#include "server/controller/controller_test_world.h"

namespace remesh::server {
namespace {

// State s, READY at generation 1 on a and b, moves to generation 2 on a and b.
class ControllerMovesTest : public ControllerTestWorld {
 protected:
  void SetUp() override {
    a_ = Attach("a");
    b_ = Attach("b");
    uid_ = Create({"a", "b"}).uid();
    Seal(a_, Manifest(uid_, 1));
    Seal(b_, Manifest(uid_, 1));
  }

  static std::shared_ptr<const PlacedState> WithBytes(const std::vector<std::string>& hosts,
                                                      int64_t bytes) {
    auto placed = std::make_shared<PlacedState>(*Place(SpecOn(hosts)));
    placed->total_bytes = bytes;
    return placed;
  }
  // Returns the name.
  std::string StartMove(int64_t generation = 1, const std::string& state = kState,
                        const std::vector<std::string>& target = {"a", "b"}, int32_t device = 0) {
    const auto reply = TryMove(generation, state, target, device);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? std::get<v1::Execution>(*reply).name() : "";
  }
  absl::StatusOr<Reply> TryMove(int64_t generation, const std::string& state,
                                const std::vector<std::string>& target, int32_t device = 0,
                                int64_t bytes = 0) {
    v1::StartExecutionRequest request;
    request.set_state(state);
    request.set_expected_generation(generation);
    request.set_plan("plans/p");
    const CallId call = Ask(request);
    PlannedExecution move;
    move.target = WithBytes(target, bytes);
    std::set<std::string> hosts = {"a", "b"};
    hosts.insert(target.begin(), target.end());
    for (const std::string& host : hosts) {
      move.hosts[host] = {.device_ids = {device}, .local_devices = {device}};
    }
    move.plan = "plans/p";
    Handle(Planned{.id = plannings_.back(), .move = move});
    return replies_.at(call);
  }
  void Drain(const std::string& host) {
    v1::DrainWorkerRequest request;
    request.set_name("workers/" + host);
    EXPECT_TRUE(replies_.at(Ask(request)).ok());
  }
  v1::AttemptId Attempt(const std::string& name) {
    v1::AttemptId attempt;
    attempt.set_execution(name);
    attempt.set_attempt(1);
    return attempt;
  }
  void Answer(StreamId stream, v1::AttachRequest::EventCase kind, const std::string& name,
              int64_t generation = 2) {
    v1::AttachRequest message;
    if (kind == v1::AttachRequest::kPrepared) {
      *message.mutable_prepared()->mutable_attempt() = Attempt(name);
    } else if (kind == v1::AttachRequest::kVerified) {
      *message.mutable_verified()->mutable_attempt() = Attempt(name);
    } else {
      *message.mutable_committed()->mutable_attempt() = Attempt(name);
      *message.mutable_committed()->mutable_manifest() = Written(generation, name);
    }
    Say(stream, message);
  }
  v1::StateManifest Written(int64_t generation, const std::string& execution,
                            v1::ShardPhase phase = v1::SHARD_PHASE_READY) {
    v1::StateManifest manifest = Manifest(uid_, generation);
    manifest.set_execution(execution);
    manifest.set_phase(phase);
    return manifest;
  }
  std::string UntilCommitting() {
    const std::string name = StartMove();
    for (const auto kind : {v1::AttachRequest::kPrepared, v1::AttachRequest::kVerified}) {
      for (const StreamId stream : {a_, b_}) Answer(stream, kind, name);
    }
    EXPECT_EQ(Phase(name), v1::Execution::COMMITTING);
    return name;
  }
  v1::Execution::Phase Phase(const std::string& name) {
    v1::GetExecutionRequest request;
    request.set_name(name);
    return std::get<v1::Execution>(*replies_.at(Ask(request))).phase();
  }
  std::string Resolve(const std::string& name) {
    v1::ResolveExecutionRequest request;
    request.set_name(name);
    request.set_resolution(v1::ResolveExecutionRequest::KEEP_SOURCE);
    return GetErrorInfo(replies_.at(Ask(request)).status()).reason;
  }

  // The host was told of a later journal than this one.
  void AttachWitness(const std::string& host) {
    v1::Register later = Identity(host);
    later.mutable_position()->set_leadership("a later one");
    *later.add_manifests() = Manifest(uid_, 1);
    Attach(later);
    ASSERT_TRUE(controller_->gauges().journal_behind);
  }

  StreamId a_ = 0, b_ = 0;
  std::string uid_;
};

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
  EXPECT_EQ(Count(b_, Command::kPrepare), before + 1);  // was: queued for ever
}

// Hosts with two devices each, and two states that move on different ones.
class ControllerTransportTest : public ControllerMovesTest {
 protected:
  // Starts both moves; returns how often b was told to prepare.
  int StartTwo(const std::string& transport) {
    for (const char* host : {"a", "b"}) {
      v1::Register registration = Identity(host);
      registration.add_devices()->set_id(host[0] + 100);
      *registration.add_manifests() = Manifest(uid_, 1);
      registration.add_data_addresses()->set_transport(transport);
      (*host == 'a' ? a_ : b_) = Attach(registration);
    }
    CreateState create{.request = {}, .placed = Place(SpecOn({"a", "b"}))};
    create.request.mutable_state()->set_name("jobs/j/states/other");
    const std::string uid = std::get<v1::State>(*replies_.at(Ask(create))).uid();
    Seal(a_, Manifest(uid, 1, "jobs/j/states/other"));
    Seal(b_, Manifest(uid, 1, "jobs/j/states/other"));
    first_ = StartMove();
    StartMove(1, "jobs/j/states/other", {"a", "b"}, /*device=*/1);
    return Count(b_, Command::kPrepare);
  }
  void CancelFirst() {
    v1::CancelExecutionRequest cancel;
    cancel.set_name(first_);
    Ask(cancel);
    v1::AttachRequest message;
    *message.mutable_quiesced()->mutable_attempt() = Attempt(first_);
    Say(a_, message);
    Say(b_, message);
  }
  std::string first_;
};

TEST_F(ControllerTransportTest, OtherDevicesOfAHostServeAnotherExecution) {
  EXPECT_EQ(StartTwo("tcp"), 2);
}

// Regression: both executions opened communicators, in a different order on each host, and waited
// for each other.
TEST_F(ControllerTransportTest, OverNcclAHostServesOneExecutionAtATime) {
  EXPECT_EQ(StartTwo("nccl"), 1);
  CancelFirst();
  EXPECT_EQ(Count(b_, Command::kPrepare), 2);
}

// Regression: both hosts reserved memory, and then failed the move.
TEST_F(ControllerMovesTest, HostsWithoutACommonTransportAreRefusedAtTheStart) {
  StartServer();
  for (const auto& [host, transport] : {std::pair("a", "nccl"), std::pair("b", "tcp")}) {
    v1::Register registration = Identity(host);
    *registration.add_manifests() = Manifest(uid_, 1);
    registration.add_data_addresses()->set_transport(transport);
    (*host == 'a' ? a_ : b_) = Attach(registration);
  }
  const absl::Status refused = TryMove(1, kState, {"a", "b"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(), "hosts a and b have no transport in common: nccl and tcp");
  EXPECT_EQ(GetErrorInfo(refused).reason, "NO_COMMON_TRANSPORT");
  EXPECT_EQ(GetErrorInfo(refused).metadata["host"], "b");
  EXPECT_EQ(Count(a_, Command::kPrepare) + Count(b_, Command::kPrepare), 0);
}

// A host with GPUs reaches one without by TCP. The third has a worker that lists NCCL alone.
TEST_F(ControllerMovesTest, EveryTwoHostsNeedATransportInCommon) {
  StartServer();
  using Transports = std::vector<std::string>;
  const auto attach = [&](const std::string& host, const Transports& transports) {
    v1::Register registration = Identity(host);
    *registration.add_manifests() = Manifest(uid_, 1);
    for (const std::string& transport : transports)
      registration.add_data_addresses()->set_transport(transport);
    return Attach(registration);
  };
  a_ = attach("a", {"nccl", "tcp"});
  b_ = attach("b", {"tcp"});
  attach("c", {"nccl"});
  const absl::Status refused = TryMove(1, kState, {"a", "b", "c"}).status();
  EXPECT_EQ(refused.message(), "hosts b and c have no transport in common: tcp and nccl");
  const auto started = TryMove(1, kState, {"a", "b"});
  EXPECT_TRUE(started.ok()) << started.status();
}

class ControllerEncryptionTest : public ControllerMovesTest {
 protected:
  // a and b come back with addresses of these transports.
  void Return(const std::string& of_a, const std::string& of_b) {
    options_.encrypts_data = true;
    StartServer();
    for (const auto& [host, transport] : {std::pair("a", of_a), std::pair("b", of_b)}) {
      v1::Register registration = Identity(host);
      *registration.add_manifests() = Manifest(uid_, 1);
      for (const std::string& name : {std::string("tcp"), transport})
        registration.add_data_addresses()->set_transport(name);
      (*host == 'a' ? a_ : b_) = Attach(registration);
    }
  }
  void Reconfigured(bool encrypts) {
    auto options = std::make_shared<LiveOptions>();
    options->execution_deadline = options_.execution_deadline;
    options->states_max = options_.states_max;
    options->finished_executions_max = options_.finished_executions_max;
    options->encrypts_data = encrypts;
    Handle(Reconfigure{.call = ++last_reconfigured_, .options = options});
  }
  CallId last_reconfigured_ = 1'000'000;
};

TEST_F(ControllerEncryptionTest, OnlyAddressesThatEncryptAreTold) {
  Return("tcp+aes-256-gcm", "tcp+aes-256-gcm");
  StartMove();
  ASSERT_EQ(sent_[b_].back().command_case(), Command::kPrepare);
  const v1::Prepare prepare = sent_[b_].back().prepare();
  ASSERT_EQ(prepare.peers_size(), 2);
  for (const v1::PeerEntry& peer : prepare.peers()) {
    ASSERT_EQ(peer.data_addresses_size(), 1);
    EXPECT_EQ(peer.data_addresses(0).transport(), "tcp+aes-256-gcm");
  }
}

TEST_F(ControllerEncryptionTest, AHostThatDoesNotEncryptTakesPartInNothing) {
  Return("tcp+aes-256-gcm", "nccl");
  const absl::Status refused = TryMove(1, kState, {"a", "b"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorInfo(refused).reason, "DATA_NOT_ENCRYPTED");
  EXPECT_EQ(GetErrorInfo(refused).metadata["host"], "b");
}

// Regression: both hosts prepared, and one failed the move because the other had no address of its
// transport.
TEST_F(ControllerEncryptionTest, AQueuedMoveIsToldWhyWhenEncryptionIsTurnedOn) {
  Return("tcp+aes-256-gcm", "nccl");
  Reconfigured(false);
  CreateState create{.request = {}, .placed = Place(SpecOn({"a", "b"}))};
  create.request.mutable_state()->set_name("jobs/j/states/other");
  const std::string uid = std::get<v1::State>(*replies_.at(Ask(create))).uid();
  Seal(a_, Manifest(uid, 1, "jobs/j/states/other"));
  Seal(b_, Manifest(uid, 1, "jobs/j/states/other"));
  const std::string first = StartMove();
  v1::GetExecutionRequest get;
  get.set_name(StartMove(1, "jobs/j/states/other"));  // on the same devices
  Reconfigured(true);
  v1::CancelExecutionRequest cancel;
  cancel.set_name(first);
  Ask(cancel);
  v1::AttachRequest message;
  *message.mutable_quiesced()->mutable_attempt() = Attempt(first);
  Say(a_, message);
  Say(b_, message);
  const auto failed = std::get<v1::Execution>(*replies_.at(Ask(get)));
  EXPECT_EQ(failed.phase(), v1::Execution::FAILED);
  EXPECT_NE(failed.error().message().find("cannot encrypt"), std::string::npos)
      << failed.error().message();
  EXPECT_EQ(Count(b_, Command::kPrepare), 1);
}

// The host was cut off while it reserved memory, and the server restarted meanwhile.
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
