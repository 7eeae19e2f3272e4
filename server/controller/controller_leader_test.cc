// SPDX-License-Identifier: Apache-2.0
// Epochs, and workers that followed other planners.
#include "server/controller/testing/controller_test_world.h"

namespace remesh::server {
namespace {

class ControllerLeaderTest : public ControllerTestWorld {};

TEST_F(ControllerLeaderTest, NoWorkerIsWelcomedBeforeTheEpochIsOnDisk) {
  disk_stops_ = true;
  StartServer();
  const StreamId a = Attach("a");
  EXPECT_EQ(Count(a, Command::kWelcome), 0);
  Write();
  ASSERT_EQ(Count(a, Command::kWelcome), 1);
  EXPECT_EQ(disk_.at("epoch"), std::to_string(sent_[a].front().epoch()));
}

TEST_F(ControllerLeaderTest, ARaisedEpochIsUsedOnceItIsOnDisk) {
  const StreamId a = Attach("a");
  const uint64_t epoch = controller_->epoch();
  disk_stops_ = true;
  const StreamId b = Attach("b", {}, epoch + 10);
  EXPECT_EQ(Count(b, Command::kWelcome), 0);
  EXPECT_EQ(controller_->epoch(), epoch);
  Write();
  EXPECT_EQ(sent_[b].front().epoch(), epoch + 11);
  EXPECT_EQ(disk_.at("epoch"), std::to_string(epoch + 11));
  EXPECT_EQ(Count(a, Command::kWelcome), 1);
}

TEST_F(ControllerLeaderTest, AnEpochOutOfReachIsRefusedAndDoesNotPoisonTheJournal) {
  const std::string before = disk_.at("epoch");
  for (const uint64_t epoch : {~uint64_t{0}, ~uint64_t{0} - 1, uint64_t{1} << 40}) {
    const StreamId stream = Attach("a", {}, epoch);
    ASSERT_TRUE(closed_.contains(stream)) << epoch;
    EXPECT_EQ(GetErrorInfo(closed_[stream]).metadata["field"], "register.highest_epoch");
  }
  EXPECT_EQ(disk_.at("epoch"), before);
  EXPECT_EQ(Count(Attach("a", {}, uint64_t{1} << 32), Command::kWelcome), 1);
}

TEST_F(ControllerLeaderTest, WhoComesBackToItsLeaderRaisesNothing) {
  Attach("a");
  const uint64_t epoch = controller_->epoch();
  Handle(StreamEnded{1});
  Attach("a", {}, epoch);
  EXPECT_EQ(controller_->epoch(), epoch);
}

// The host's machine died together with the server's, as machines of one rack do: an operator must
// be told.
TEST_F(ControllerLeaderTest, AHostThatHasNotComeBackIsCountedAndListedAsAway) {
  Attach("a");
  Attach("b");
  Create({"a", "b"});
  StartServer();
  Attach("b");
  EXPECT_EQ(controller_->gauges().workers, 2);
  EXPECT_EQ(controller_->gauges().workers_alive, 1);
  const auto listed =
      std::get<v1::ListWorkersResponse>(*replies_.at(Ask(v1::ListWorkersRequest())));
  ASSERT_EQ(listed.workers_size(), 2);
  EXPECT_EQ(listed.workers(0).name(), "workers/a");
  EXPECT_FALSE(listed.workers(0).alive());
  EXPECT_TRUE(listed.workers(1).alive());
}

// The worker's epoch equals ours only as a number.
TEST_F(ControllerLeaderTest, AWorkerOfAnotherLeaderOfOurEpochRaisesIt) {
  const uint64_t epoch = controller_->epoch();
  Attach("b", {}, epoch);
  EXPECT_EQ(controller_->epoch(), epoch + 1);
  EXPECT_EQ(sent_[1].front().epoch(), epoch + 1);
}

TEST_F(ControllerLeaderTest, NothingIsFreedForLackOfKnowledge) {
  Attach("a");
  const v1::State state = Create({"a"});
  const std::vector<v1::StateManifest> unknown = {Manifest("other", 1), Manifest("other", 2),
                                                  Manifest("u", 1, "jobs/j/states/unknown")};
  const StreamId b = Attach("b", unknown);
  ASSERT_EQ(sent_[b].size(), 1u);  // welcome
  EXPECT_EQ(OwedBy("b").size(), 3u);
  EXPECT_EQ(controller_->gauges().owed_generations, 3);
  StartServer();
  const StreamId again = Attach("b", unknown);
  EXPECT_EQ(sent_[again].size(), 1u);
}

// Found by tests/fuzz: commands went over a stream that had been closed.
TEST_F(ControllerLeaderTest, NothingIsHeardOfAStreamThatWasClosedWhileItWaited) {
  disk_stops_ = true;
  StartServer();
  Send(77, {});
  v1::AttachRequest first;
  *first.mutable_register_() = Identity("a");
  Send(77, first);
  disk_stops_ = false;
  Write();
  EXPECT_TRUE(closed_.contains(77));
  EXPECT_TRUE(sent_[77].empty());
  EXPECT_EQ(controller_->gauges().workers, 0);
}

// ---- journals that go back ----

class JournalBehindTest : public ControllerTestWorld {
 protected:
  void RollBack() {
    disk_ = saved_disk_;
    past_ = saved_past_;
    StartServer();
  }
  void Remember() {
    saved_disk_ = disk_;
    saved_past_ = past_;
  }
  // A state on a and b, whose workers were told of transactions that a copy of the journal lacks.
  void SetUp() override {
    Attach("a");
    Attach("b");
    uid_ = Create({"a", "b"}).uid();
    Seal(1, Manifest(uid_, 1));
    Seal(2, Manifest(uid_, 1));
    Remember();
    Attach("c");  // a transaction
    Other();
    Attach("a", {Manifest(uid_, 1)});
    Attach("b", {Manifest(uid_, 1)});
  }
  static v1::ResetWorkerRequest Reset() {
    v1::ResetWorkerRequest reset;
    reset.set_name("workers/c");
    return reset;
  }
  // Any transaction.
  void Other() {
    CreateState create{.request = {}, .placed = Place(SpecOn({"c"}))};
    create.request.mutable_state()->set_name("jobs/j/states/t" + std::to_string(++others_));
    Ask(std::move(create));
  }
  bool Behind() { return controller_->gauges().journal_behind; }

  std::map<std::string, std::string> saved_disk_;
  JournalPast saved_past_;
  std::string uid_;
  int others_ = 0;
};

TEST_F(JournalBehindTest, AWorkerThatWasToldMoreStopsAllDecisions) {
  RollBack();
  EXPECT_FALSE(Behind());  // no worker has said so yet
  const StreamId a = Attach("a", {Manifest(uid_, 2)});
  EXPECT_TRUE(Behind());
  ASSERT_EQ(sent_[a].size(), 1u);
  EXPECT_TRUE(sent_[a][0].has_welcome());
  const size_t written = disk_.size();
  v1::DeleteStateRequest remove;
  remove.set_name(kState);
  const absl::Status refused = replies_.at(Ask(remove)).status();
  EXPECT_EQ(GetErrorInfo(refused).reason, "JOURNAL_BEHIND");
  EXPECT_EQ(GetErrorInfo(refused).metadata["hosts"], "a");
  EXPECT_EQ(disk_.size(), written);
  EXPECT_EQ(Get().generation(), 1);  // questions are answered
}

TEST_F(JournalBehindTest, AForkedJournalThatCountedOnIsFoundOut) {
  positions_["c"] = {};  // was told nothing
  RollBack();
  Attach("c");
  for (int i = 0; i < 1000; ++i) Other();
  EXPECT_FALSE(Behind());
  Attach("b", {Manifest(uid_, 2)});
  EXPECT_TRUE(Behind());
}

TEST_F(JournalBehindTest, TheWitnessReturnsLastAndStillFindsItsShards) {
  positions_["b"] = {};  // was told of nothing that came after
  RollBack();
  const StreamId b = Attach("b", {Manifest(uid_, 1)});
  EXPECT_FALSE(Behind());
  EXPECT_EQ(Count(b, Command::kRetire) + Count(b, Command::kForgetState), 0);
  const StreamId a = Attach("a", {Manifest(uid_, 2)});
  EXPECT_TRUE(Behind());
  EXPECT_EQ(Count(a, Command::kRetire), 0);
  EXPECT_EQ(GetErrorInfo(replies_.at(Ask(Reset())).status()).reason, "JOURNAL_BEHIND");
}

TEST_F(JournalBehindTest, AnOlderJournalIsAcceptedOnPurposeAndFreesNothing) {
  const v1::JournalPosition told = positions_["a"];
  RollBack();
  Attach("a", {Manifest(uid_, 2)});
  ASSERT_TRUE(Behind());
  EXPECT_EQ(positions_["a"].leadership(), told.leadership());  // it keeps its proof
  past_.accepts_older = true;
  StartServer();
  const StreamId a = Attach("a", {Manifest(uid_, 2)}), b = Attach("b", {Manifest(uid_, 1)});
  EXPECT_FALSE(Behind());
  EXPECT_EQ(Get().phase(), v1::State::LOST);
  EXPECT_EQ(Get().newer_hosts(0), "a");
  EXPECT_EQ(Count(a, Command::kRetire) + Count(b, Command::kRetire), 0);
  ASSERT_EQ(OwedBy("a").size(), 1u);
  // What was accepted once stays accepted.
  past_.accepts_older = false;
  StartServer();
  positions_["a"] = told;
  Attach("a", {Manifest(uid_, 2)});
  EXPECT_FALSE(Behind());
  // The owner decides.
  v1::DiscardShardsRequest discard;
  discard.set_name("workers/a");
  discard.set_state(kState);
  discard.set_state_uid(uid_);
  const auto& reply = replies_.at(Ask(discard));
  EXPECT_EQ(GetErrorInfo(reply.status()).reason, "LAST_COPY");  // was: discarded
  EXPECT_EQ(OwedBy("a").size(), 1u);
  discard.set_even_last_copy(true);
  const auto discarded = replies_.at(Ask(discard));
  ASSERT_TRUE(discarded.ok()) << discarded.status();
  const auto& response = std::get<v1::DiscardShardsResponse>(*discarded);
  ASSERT_EQ(response.last_copies_size(), 1);
  EXPECT_EQ(response.last_copies(0).manifest().generation(), 2);
  EXPECT_TRUE(Get().newer_hosts().empty());
  EXPECT_TRUE(OwedBy("a").empty());
}

TEST_F(ControllerLeaderTest, WhatIsNeededIsDiscardedWithConsentOnly) {
  Attach("a");
  const StreamId b = Attach("b");
  const std::string uid = Create({"a", "b"}).uid();
  Attach("a", {Manifest(uid, 1)});
  Seal(b, Manifest(uid, 1));
  const StreamId c = Attach("c", {Manifest(uid, 1)});  // on which the state does not lie
  ASSERT_EQ(OwedBy("c").size(), 1u);
  v1::DiscardShardsRequest discard;
  discard.set_name("workers/c");
  discard.set_state(kState);
  discard.set_state_uid(uid);
  Handle(StreamEnded{b});
  EXPECT_EQ(GetErrorInfo(replies_.at(Ask(discard)).status()).reason, "LAST_COPY");  // was: freed
  EXPECT_EQ(Count(c, Command::kRetire), 0);
  Attach("b", {Manifest(uid, 1)});
  const auto reply = replies_.at(Ask(discard));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(std::get<v1::DiscardShardsResponse>(*reply).last_copies_size(), 0);
  EXPECT_EQ(Count(c, Command::kRetire), 1);
}

// Nothing is confirmed any more.
TEST_F(JournalBehindTest, AWaitingDeletionEnds) {
  v1::DeleteStateRequest remove;
  remove.set_name(kState);
  remove.set_wait(true);
  const CallId call = Ask(remove);
  EXPECT_FALSE(replies_.contains(call));
  v1::Register later = Identity("a");
  later.mutable_position()->set_leadership("a later one");
  Attach(later);
  ASSERT_TRUE(Behind());
  ASSERT_TRUE(replies_.contains(call));
  EXPECT_EQ(GetErrorInfo(replies_.at(call).status()).reason, "JOURNAL_BEHIND");
}

TEST_F(JournalBehindTest, WhoIsBehindWritesNothing) {
  Handle(StreamEnded{2});
  Delete();  // the tombstone waits for b
  v1::Register later = Identity("a");
  later.mutable_position()->set_leadership("a later one");
  Attach(later);
  ASSERT_TRUE(Behind());
  const auto before = disk_;
  v1::Register reborn = Identity("b");  // and has forgotten
  reborn.set_highest_epoch(controller_->epoch());
  Attach(reborn);
  EXPECT_EQ(disk_, before);
}

TEST_F(JournalBehindTest, OurOwnLeadershipIsNeverGivenUp) {
  past_.accepts_older = true;
  StartServer();
  v1::Register forged = Identity("a");
  forged.mutable_position()->set_leadership(past_.leadership);
  forged.mutable_position()->set_sequence(1'000'000);
  Attach(forged);
  EXPECT_FALSE(disk_.contains(LostLeadershipRecord(past_.leadership).key));
}

TEST_F(JournalBehindTest, ACleanRestartIsNotBehind) {
  StartServer();
  Attach("a", {Manifest(uid_, 1)});
  StartServer();
  StartServer();
  Attach("b", {Manifest(uid_, 1)});
  EXPECT_FALSE(Behind());
}

TEST_F(JournalBehindTest, AWorkerOfAnotherClusterIsRefusedAndLosesNothing) {
  v1::Register other = Identity("a");
  other.mutable_position()->set_cluster_uid("other");
  other.mutable_position()->set_leadership("theirs");
  *other.add_manifests() = Manifest("theirs", 5);
  const StreamId stream = Attach(other);
  EXPECT_EQ(Refused(stream), "OTHER_CLUSTER");
  EXPECT_TRUE(sent_[stream].empty());
  EXPECT_FALSE(Behind());
  // The host's record may be lost, but its buffers are not.
  other.clear_position();
  other.mutable_manifests(0)->set_cluster_uid("other");
  EXPECT_EQ(Refused(Attach(other)), "OTHER_CLUSTER");
}

}  // namespace
}  // namespace remesh::server
