// SPDX-License-Identifier: Apache-2.0
// States that are written once, from the first seal to what a commit means for hosts.
#include "server/controller/states/write_once.h"

#include "server/controller/states/not_ready.h"
#include "server/controller/testing/states_test_world.h"

namespace remesh::server {
namespace {

class WriteOnceTest : public StatesTestWorld {
 protected:
  using Command = v1::AttachResponse;

  void SetUp() override {
    for (const char* host : {"a", "b"}) Attach(host);
    CreateOnce(true);
  }
  void CreateOnce(bool write_once, const std::vector<std::string>& hosts = {"a", "b"}) {
    CreateState create = Asked(hosts);
    create.request.mutable_state()->set_write_once(write_once);
    const auto asked = states_.Create(1, create, now_, out_);
    ASSERT_TRUE(asked.has_value());
    membership_.Keep(asked->hosts);
    states_.OnCreated(std::get<StateCreated>(asked->then), out_);
    Clear();
  }
  void Hold(const std::string& host, v1::ShardPhase phase, const std::string& write = "") {
    v1::StateManifest manifest = Manifest(kState, Find()->uid(), 1);
    manifest.set_phase(phase);
    manifest.set_sealed_shards(phase == v1::SHARD_PHASE_READY ? 1 : 0);
    manifest.set_write(write);
    membership_.Hold(host, manifest);
    states_.CommitWrites({kState}, out_);
  }
  void Seal(const std::string& host, const std::string& write = "") {
    Hold(host, v1::SHARD_PHASE_READY, write);
  }
  // What is on its way to the journal gets there.
  void Write() {
    for (const FollowUp& next : out_.TakeFollowUps()) {
      if (const auto* committed = std::get_if<WriteCommitted>(&next)) {
        states_.OnWriteCommitted(*committed, out_);
      }
    }
  }
  void SealAllAndWrite() {
    for (const char* host : {"a", "b"}) Seal(host);
    Write();
    Clear();
  }
  // Another life of the host's machine, with a worker that knows write_once or does not.
  void ComeBack(const std::string& host, bool knows = true) {
    v1::Register registration = Registration(host);
    registration.set_process_nonce(std::string(15, '!') + "2");
    registration.set_supports_write_once(knows);
    membership_.EndStream(membership_.workers().Find(host)->stream, now_, out_);
    Attach(registration);
    Clear();
    states_.Assign(host, out_);
    states_.CommitWrites({kState}, out_);
  }
  v1::State Seen() { return ToProto(*Find(), membership_.workers()); }
  std::string Phase() { return v1::State::Phase_Name(Seen().phase()); }
  std::string Why() { return std::string(NotReady(*Find(), membership_.workers()).message()); }
  std::vector<v1::Assignment> Assigned() {
    std::vector<v1::Assignment> assigned;
    for (const SendToWorker& send : Did<SendToWorker>()) {
      if (send.message.has_assign_state())
        assigned.push_back(send.message.assign_state().assignment());
    }
    for (const SendLater& later : Did<SendLater>()) {
      for (const Command& command : later.commands.make()) {
        assigned.push_back(command.assign_state().assignment());
      }
    }
    return assigned;
  }
};

TEST_F(WriteOnceTest, AWriteOnceStateIsBuildingUntilItsCommitIsDurable) {
  Seal("a");
  EXPECT_TRUE(Did<Persist>().empty());
  Seal("b");
  ASSERT_EQ(Did<Persist>().size(), 1u);
  EXPECT_EQ(Did<Persist>()[0].records.size(), 1u);
  EXPECT_EQ(Did<Persist>()[0].records[0].bytes, Find()->uid());
  EXPECT_EQ(Phase(), "BUILDING");  // READY without write_once
  EXPECT_EQ(Why(), "jobs/j/states/s is BUILDING, not READY; its commit is on its way to the disk");
  EXPECT_EQ(Sent(1, Command::kCommitWrite), 0);
  Write();
  EXPECT_EQ(Phase(), "READY");
  for (const StreamId stream : {1, 2}) EXPECT_EQ(Sent(stream, Command::kCommitWrite), 1);
  Seal("b");  // said twice
  EXPECT_EQ(Did<Persist>().size(), 1u);
}

// Regression: each host that sealed looked at all that had sealed before.
TEST_F(WriteOnceTest, TheCommitWaitsForEveryHostWhereverItIsLookedForFirst) {
  states_.OnDeleted({.name = kState, .gone = {}}, out_);
  Attach("c");
  CreateOnce(true, {"a", "b", "c"});
  Seal("a");
  EXPECT_EQ(Find()->unsealed_host, "b");
  Hold("a", v1::SHARD_PHASE_BUILDING);  // unsealed again
  Seal("b");
  Seal("c");
  EXPECT_TRUE(Did<Persist>().empty());
  EXPECT_EQ(Find()->unsealed_host, "a");
  Seal("a");
  EXPECT_EQ(Did<Persist>().size(), 1u);
}

TEST_F(WriteOnceTest, AHostThatComesBackWithoutShardsOfACommittedWriteIsLost) {
  SealAllAndWrite();
  ComeBack("b");
  EXPECT_EQ(Phase(), "LOST");
  EXPECT_EQ(Seen().lost_hosts(0), "b");
  ASSERT_EQ(Assigned().size(), 1u);
  EXPECT_TRUE(Assigned()[0].committed()) << "or its trainers could fill the shards again";
  EXPECT_TRUE(Assigned()[0].write_once());
}

// Regression: with a journal from before the commit, the wiped host was filled again.
TEST_F(WriteOnceTest, AHostThatSawTheCommitBringsAnOlderJournalBackToIt) {
  ComeBack("b");  // wiped
  v1::StateManifest manifest = Manifest(kState, Find()->uid(), 1);
  manifest.set_phase(v1::SHARD_PHASE_READY);
  manifest.set_sealed_shards(1);
  manifest.set_write_committed(true);
  membership_.Hold("a", manifest);
  states_.NoteCommitted(manifest);
  states_.CommitWrites({kState}, out_);
  ASSERT_EQ(Did<Persist>().size(), 1u);
  Write();
  EXPECT_EQ(Phase(), "LOST");
  EXPECT_EQ(Seen().lost_hosts(0), "b");
  ASSERT_FALSE(Assigned().empty());
  EXPECT_TRUE(Assigned().back().committed()) << "or its trainers could fill the shards again";
}

TEST_F(WriteOnceTest, WithoutTheFlagAHostThatComesBackWithoutShardsIsFilledAgain) {
  states_.OnDeleted({.name = kState, .gone = {}}, out_);
  CreateOnce(false);
  SealAllAndWrite();
  EXPECT_EQ(Phase(), "READY");
  ComeBack("b");
  EXPECT_EQ(Phase(), "BUILDING");
  EXPECT_FALSE(Assigned().at(0).committed());
  EXPECT_FALSE(Assigned().at(0).write_once());
}

TEST_F(WriteOnceTest, BeforeTheCommitAHostThatComesBackWithoutShardsIsFilledAgain) {
  Seal("a");
  ComeBack("a");
  EXPECT_EQ(Phase(), "BUILDING");
  EXPECT_FALSE(Assigned().at(0).committed());
  SealAllAndWrite();
  EXPECT_EQ(Phase(), "READY");
}

TEST_F(WriteOnceTest, HostsOfDifferentWritesAreNotCommitted) {
  Seal("a", "7");
  Seal("b", "6");
  EXPECT_TRUE(Did<Persist>().empty());
  EXPECT_EQ(Phase(), "BUILDING");
  Seal("b", "7");
  EXPECT_EQ(Did<Persist>().size(), 1u);
}

TEST_F(WriteOnceTest, NamesOfWritesMeanNothingOnceTheContentIsFixed) {
  SealAllAndWrite();
  Seal("a", "7");  // joins, which changes no content
  EXPECT_EQ(Phase(), "READY");
}

// Its trainers could fill the shards while the record that says that they are committed is written.
TEST_F(WriteOnceTest, WhileTheCommitIsOnItsWayAHostWithoutItsShardsIsNotAssignedThem) {
  for (const char* host : {"a", "b"}) Seal(host);
  std::vector<FollowUp> on_their_way = out_.TakeFollowUps();
  ComeBack("b");
  EXPECT_TRUE(Assigned().empty());
  EXPECT_EQ(Phase(), "BUILDING");
  states_.OnWriteCommitted(std::get<WriteCommitted>(on_their_way.at(0)), out_);
  EXPECT_EQ(Phase(), "LOST");
  EXPECT_EQ(Sent(1, Command::kCommitWrite), 1);
  ASSERT_EQ(Assigned().size(), 1u);
  EXPECT_TRUE(Assigned()[0].committed());
}

TEST_F(WriteOnceTest, AHostWithoutShardsWhoseTrainerAskedLearnsOfTheCommit) {
  Attach("c");
  states_.OnWanted("c", kState, out_);
  EXPECT_FALSE(Assigned().at(0).committed());
  Clear();
  for (const char* host : {"a", "b"}) Seal(host);
  Write();
  ASSERT_EQ(Assigned().size(), 1u);
  EXPECT_TRUE(Assigned()[0].committed());
  EXPECT_EQ(Assigned()[0].shards_size(), 0);
}

TEST_F(WriteOnceTest, CreateStateNamesHostsWhoseWorkersDoNotKnowIt) {
  ComeBack("b", /*knows=*/false);
  CreateState create = Asked({"a", "b"});
  create.request.mutable_state()->set_name("jobs/j/states/t");
  create.request.mutable_state()->set_write_once(true);
  EXPECT_FALSE(states_.Create(8, create, now_, out_).has_value());
  const absl::Status refused = Replies(8).at(0).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorInfo(refused).reason, "WORKER_TOO_OLD");
  EXPECT_EQ(GetErrorInfo(refused).metadata["hosts"], "b");
  create.request.mutable_state()->set_write_once(false);
  EXPECT_TRUE(states_.Create(9, create, now_, out_).has_value());
}

// A worker that was downgraded lets its trainers unseal what it holds.
TEST_F(WriteOnceTest, SealsOfAWorkerThatDoesNotKnowItLeadToNoCommit) {
  Seal("a");
  ComeBack("b", /*knows=*/false);
  EXPECT_EQ(Did<Note>().at(0).line,
            "the worker of host b must be upgraded: until then no shard counts that it holds of "
            "jobs/j/states/s");
  Seal("b");
  EXPECT_TRUE(Did<Persist>().empty());
  EXPECT_EQ(Phase(), "BUILDING");
  EXPECT_EQ(Why(),
            "jobs/j/states/s is BUILDING, not READY; not sealed on b; it is written once, which "
            "the workers of b do not know: upgrade them");
  ComeBack("b");
  Seal("b");
  EXPECT_EQ(Did<Persist>().size(), 1u);
}

TEST_F(WriteOnceTest, ACommittedWriteIsLostWhereTheWorkerDoesNotKnowIt) {
  SealAllAndWrite();
  ComeBack("b", /*knows=*/false);
  Seal("b");
  EXPECT_EQ(Phase(), "LOST");
  Hold("b", v1::SHARD_PHASE_BUILDING);
  EXPECT_EQ(Phase(), "LOST");
  ComeBack("b");
  Seal("b");
  EXPECT_EQ(Phase(), "READY");
}

TEST_F(WriteOnceTest, UnsealedShardsOfACommittedWriteAreLostRatherThanBuilding) {
  SealAllAndWrite();
  Hold("b", v1::SHARD_PHASE_BUILDING);
  EXPECT_EQ(Phase(), "LOST");
  EXPECT_EQ(Seen().lost_hosts(0), "b");
}

TEST_F(WriteOnceTest, WhatIsBeingDeletedOrMovedIsNotCommitted) {
  Seal("a");
  states_.BeginExecution(kState, "jobs/j/executions/e", nullptr);
  Seal("b");
  EXPECT_TRUE(Did<Persist>().empty());
  states_.EndExecution({.state = kState, .generation = 2, .target = nullptr}, out_);
  states_.Delete({.call = 7}, kState, {});
  states_.CommitWrites({kState}, out_);
  EXPECT_TRUE(Did<Persist>().empty());
}

TEST_F(WriteOnceTest, ACommitOfADeletedStateMeansNothing) {
  for (const char* host : {"a", "b"}) Seal(host);
  std::vector<FollowUp> on_their_way = out_.TakeFollowUps();
  states_.OnDeleted({.name = kState, .gone = {}}, out_);
  states_.OnWriteCommitted(std::get<WriteCommitted>(on_their_way.at(0)), out_);
  CreateOnce(true);
  states_.OnWriteCommitted(std::get<WriteCommitted>(on_their_way.at(0)), out_);
  EXPECT_EQ(Find()->once_commit, OnceCommit::kNone);
}

}  // namespace
}  // namespace remesh::server
