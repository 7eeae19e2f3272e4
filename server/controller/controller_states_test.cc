// SPDX-License-Identifier: Apache-2.0
// States of one name after another, and requests that come twice.
#include "server/controller/testing/controller_test_world.h"

namespace remesh::server {
namespace {

using Uids = std::vector<std::string>;

class ControllerStatesTest : public ControllerTestWorld {
 protected:
  CallId Start(const std::string& request_id, const std::string& plan) {
    v1::StartExecutionRequest request;
    request.set_state(kState);
    request.set_expected_generation(1);
    request.set_plan(plan);
    request.set_request_id(request_id);
    return Ask(request);
  }
  absl::Status Refusal() {
    const CallId start = Start("", "plans/p");
    EndPlanning(plannings_.back());
    const absl::Status status = replies_.at(start).status();
    EXPECT_EQ(GetErrorInfo(status).reason, "STATE_NOT_READY") << status;
    return status;
  }
  void EndPlanning(uint64_t id) {
    PlannedExecution move;
    move.target = Place(SpecOn({"a"}));
    move.hosts["a"] = {.device_ids = {0}, .local_devices = {0}};
    move.plan = "plans/p";
    Handle(Planned{.id = id, .move = move});
  }
  std::string ReasonOf(CallId call) { return GetErrorInfo(replies_.at(call).status()).reason; }
  std::string ExecutionOf(CallId call) {
    return std::get<v1::Execution>(*replies_.at(call)).name();
  }
};

TEST_F(ControllerStatesTest, BuffersOfADeletedStateDoNotCountForTheNextOfItsName) {
  const StreamId a = Attach("a"), b = Attach("b");
  const v1::State first = Create({"a", "b"});
  Seal(a, Manifest(first.uid(), 1));
  Seal(b, Manifest(first.uid(), 1));
  EXPECT_EQ(Get().phase(), v1::State::READY);
  Handle(StreamEnded{b});
  Delete();
  EXPECT_EQ(Forgotten(a), Uids{first.uid()});

  const v1::State second = Create({"a"});
  EXPECT_NE(second.uid(), first.uid());
  const StreamId b_again = Attach("b", {Manifest(first.uid(), 1)});
  EXPECT_EQ(Forgotten(b_again), Uids{first.uid()});
  Delete();
  const v1::State third = Create({"a", "b"});
  Seal(a, Manifest(third.uid(), 1));
  Seal(b_again, Manifest(first.uid(), 1));  // said before it had forgotten
  EXPECT_EQ(Get().phase(), v1::State::BUILDING);
  EXPECT_EQ(Get().sealed_shards(), 1);
  Seal(b_again, Manifest(third.uid(), 1));
  EXPECT_EQ(Get().phase(), v1::State::READY);
}

TEST_F(ControllerStatesTest, AStateKeepsItsUidOverARestart) {
  const StreamId a = Attach("a");
  const v1::State made = Create({"a"});
  EXPECT_EQ(made.uid().size(), 36u);
  EXPECT_EQ(sent_[a].back().assign_state().assignment().state_uid(), made.uid());
  StartServer();
  const StreamId again = Attach("a", {Manifest(made.uid(), 1)});
  EXPECT_EQ(Get().uid(), made.uid());
  EXPECT_EQ(Get().phase(), v1::State::READY);
  EXPECT_EQ(Forgotten(again), Uids());
}

TEST_F(ControllerStatesTest, AStateOlderThanUidsKeepsItsBuffers) {
  v1::State old;
  old.set_name(kState);
  old.set_generation(1);
  const Record record = StateRecord(old, SpecOn({"a"}));
  disk_ = {{"epoch", "4"}, {record.key, *record.bytes}};
  StartServer();
  const StreamId a = Attach("a", {Manifest("", 1)}, 4);
  EXPECT_EQ(Get().phase(), v1::State::READY);
  EXPECT_EQ(Forgotten(a), Uids());
  Delete();
  EXPECT_EQ(Forgotten(a), Uids{""});
}

TEST_F(ControllerStatesTest, AGenerationNewerThanTheJournalStaysAndTheStateIsLost) {
  Attach("a");
  const v1::State made = Create({"a"});
  Seal(1, Manifest(made.uid(), 1));
  EXPECT_EQ(Get().phase(), v1::State::READY);
  const StreamId above = Attach("a", {Manifest(made.uid(), 1), Manifest(made.uid(), 2)});
  EXPECT_EQ(Count(above, Command::kRetire), 0);
  EXPECT_EQ(Get().phase(), v1::State::LOST);
  EXPECT_EQ(OwedBy("a").size(), 1u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(warnings_[0].starts_with(absl::StrCat("host a keeps generation 2 of ", kState)));
  EXPECT_TRUE(warnings_[0].ends_with("; the state is LOST until that is settled")) << warnings_[0];
  EXPECT_EQ(GetErrorInfo(Refusal()).metadata["newer_hosts"], "a");
  EXPECT_NE(Refusal().message().find("knows is on a: see remeshctl"), std::string::npos);
  const StreamId elsewhere = Attach("b", {Manifest(made.uid(), 1)});
  EXPECT_EQ(Count(elsewhere, Command::kRetire), 0);
  EXPECT_EQ(OwedBy("b").size(), 1u);
}

// Regression: the state stayed LOST until the server was restarted.
TEST_F(ControllerStatesTest, AStateIsReadyAgainWhenTheNewerGenerationIsGone) {
  Attach("a");
  const v1::State made = Create({"a"});
  const v1::StateManifest first = Manifest(made.uid(), 1), second = Manifest(made.uid(), 2);
  Seal(1, first);
  Attach("a", {first, second, Manifest(made.uid(), 3)});
  EXPECT_EQ(Get().phase(), v1::State::LOST);
  Attach("a", {first, second});
  EXPECT_EQ(Get().phase(), v1::State::LOST);
  EXPECT_EQ(OwedBy("a").size(), 1u);
  Attach("a", {first});
  EXPECT_EQ(Get().phase(), v1::State::READY);
  EXPECT_TRUE(OwedBy("a").empty());
  EXPECT_EQ(controller_->gauges().owed_generations, 0);
}

// Regression: the host kept the deleted state's buffers forever.
TEST_F(ControllerStatesTest, TombstonesOutliveForgottenHosts) {
  Attach("a");
  const StreamId b = Attach("b");
  const v1::State made = Create({"a", "b"});
  Handle(StreamEnded{b});
  Delete();
  v1::ForgetWorkerRequest forget;
  forget.set_name("workers/b");
  ASSERT_TRUE(replies_.at(Ask(forget)).ok());
  StartServer();
  EXPECT_EQ(Forgotten(Attach("b", {Manifest(made.uid(), 1)})), Uids{made.uid()});
}

// A host that comes in the meantime keeps what it holds, because the deletion may never reach the
// disk.
TEST_F(ControllerStatesTest, NothingIsForgottenBeforeTheTombstoneIsOnDisk) {
  Attach("a");
  const v1::State made = Create({"a"});
  disk_stops_ = true;
  v1::DeleteStateRequest remove;
  remove.set_name(kState);
  Ask(remove);
  const StreamId again = Attach("a", {Manifest(made.uid(), 1)});
  EXPECT_EQ(Forgotten(again), Uids());
  Write();
  EXPECT_EQ(Forgotten(again), Uids{made.uid()});
}

// Regression: a late call of an earlier job deleted the new state of the name.
TEST_F(ControllerStatesTest, ADeletionByUidLeavesALaterStateOfTheName) {
  Attach("a");
  const auto remove_by_uid = [&](const std::string& uid) {
    v1::DeleteStateRequest remove;
    remove.set_name(kState);
    remove.set_uid(uid);
    return replies_.at(Ask(remove)).status();
  };
  const std::string first = Create({"a"}).uid();
  EXPECT_TRUE(remove_by_uid(first).ok());
  EXPECT_TRUE(remove_by_uid(first).ok()) << "joins the deletion, which no host has confirmed";
  EXPECT_EQ(GetErrorInfo(remove_by_uid("another")).reason, "NOT_FOUND");
  const std::string second = Create({"a"}).uid();
  EXPECT_EQ(GetErrorInfo(remove_by_uid(first)).reason, "STATE_REPLACED");
  EXPECT_EQ(Get().uid(), second);
  EXPECT_TRUE(remove_by_uid(second).ok());
}

TEST_F(ControllerStatesTest, ADeletionIsWaitedForAcrossARestart) {
  const auto delete_and_wait = [&] {
    v1::DeleteStateRequest remove;
    remove.set_name(kState);
    remove.set_wait(true);
    return Ask(remove);
  };
  const auto confirm = [&](StreamId stream, const std::string& uid) {
    v1::AttachRequest message;
    message.mutable_forgotten()->set_state(kState);
    message.mutable_forgotten()->set_state_uid(uid);
    Send(stream, message);
  };
  const StreamId a = Attach("a");
  const StreamId b = Attach("b");
  const std::string uid = Create({"a", "b"}).uid();
  Handle(StreamEnded{b});
  const CallId first = delete_and_wait();
  EXPECT_FALSE(replies_.contains(first));
  EXPECT_EQ(Forgotten(a), Uids{uid}) << "though it reported nothing";
  confirm(a, uid);
  ASSERT_TRUE(replies_.contains(first));
  EXPECT_EQ(std::get<v1::DeleteStateResponse>(*replies_.at(first)).absent_hosts(0), "b");

  StartServer();
  const StreamId again = Attach("b", {Manifest(uid, 1)});
  EXPECT_EQ(Forgotten(again), Uids{uid});
  const CallId second = delete_and_wait();
  EXPECT_FALSE(replies_.contains(second));
  confirm(again, uid);
  ASSERT_TRUE(replies_.contains(second));
  EXPECT_EQ(std::get<v1::DeleteStateResponse>(*replies_.at(second)).absent_hosts_size(), 0);
  EXPECT_EQ(ReasonOf(delete_and_wait()), "NOT_FOUND");
}

TEST_F(ControllerStatesTest, TombstonesAreBoundedAndThoseThatWaitForNoHostGoFirst) {
  Tombstones tombstones({.states = 2, .hosts = 100});
  tombstones.Add({"s", "1"}, tombstones.Make({"a"}));
  tombstones.Add({"s", "2"}, tombstones.Make({"b"}));
  tombstones.Confirm("b", {"s", "2"});
  tombstones.Add({"s", "3"}, tombstones.Make({"a"}));
  EXPECT_TRUE(tombstones.contains({"s", "1"}));
  EXPECT_FALSE(tombstones.contains({"s", "2"}));
  tombstones.Add({"s", "4"}, tombstones.Make({"a"}));
  EXPECT_FALSE(tombstones.contains({"s", "1"}));
  EXPECT_EQ(tombstones.WaitingFor("a"), (std::set<StateKey>{{"s", "3"}, {"s", "4"}}));
}

// Shards known only to a lost journal are freed when their owner says so.
TEST_F(ControllerStatesTest, DeletingByNameFreesWhatIsOwedOfThatName) {
  const StreamId a = Attach("a", {Manifest("lost", 3)});
  EXPECT_EQ(OwedBy("a").size(), 1u);
  Delete();
  EXPECT_EQ(Forgotten(a), Uids{"lost"});
  EXPECT_TRUE(OwedBy("a").empty());
}

TEST_F(ControllerStatesTest, OnAFullDiskNothingNewBegins) {
  Attach("a");
  const v1::State made = Create({"a"});
  Seal(1, Manifest(made.uid(), 1));
  Handle(Persisted{.sequence = past_.sequence, .full = true});
  EXPECT_EQ(ReasonOf(Start("", "plans/p")), "JOURNAL_FULL");
  CreateState create{.request = {}, .placed = Place(SpecOn({"a"}))};
  create.request.mutable_state()->set_name("jobs/j/states/t");
  EXPECT_EQ(ReasonOf(Ask(create)), "JOURNAL_FULL");
  Delete();  // makes room
  Handle(Persisted{.sequence = past_.sequence});
  EXPECT_EQ(ReasonOf(Ask(create)), "OK");
}

TEST_F(ControllerStatesTest, ARequestIdOfAnotherRequestIsRefused) {
  const StreamId a = Attach("a");
  Seal(a, Manifest(Create({"a"}).uid(), 1));
  const CallId first = Start("id", "plans/p");
  const CallId other = Start("id", "plans/q");  // while it is planned
  EXPECT_EQ(ReasonOf(other), "REQUEST_ID_REUSED");
  EndPlanning(plannings_.back());
  ASSERT_TRUE(replies_.contains(first));
  EXPECT_EQ(ReasonOf(Start("id", "plans/q")), "REQUEST_ID_REUSED");
  EXPECT_EQ(ExecutionOf(Start("id", "plans/p")), ExecutionOf(first));
  StartServer();
  Attach("a");
  EXPECT_EQ(ReasonOf(Start("id", "plans/q")), "REQUEST_ID_REUSED");
  EXPECT_EQ(ExecutionOf(Start("id", "plans/p")), ExecutionOf(first));
}

TEST_F(ControllerStatesTest, ARepeatedStartIsAnsweredOnlyOnceTheExecutionIsOnDisk) {
  const StreamId a = Attach("a");
  Seal(a, Manifest(Create({"a"}).uid(), 1));
  const CallId first = Start("id", "plans/p");
  disk_stops_ = true;
  EndPlanning(plannings_.back());
  const CallId again = Start("id", "plans/p");
  EXPECT_FALSE(replies_.contains(first));
  EXPECT_FALSE(replies_.contains(again));
  Write();
  EXPECT_EQ(ExecutionOf(again), ExecutionOf(first));
}

TEST_F(ControllerStatesTest, WorldsAreAnsweredOnceTheyAreOnDisk) {
  const std::string scope = "jobs/j/worlds/main";
  disk_stops_ = true;
  const CallId save =
      Ask(SaveWorlds{.last_epoch = 3, .worlds = {{scope, SavedWorld{.epoch = 3, .size = 2}}}});
  EXPECT_FALSE(replies_.contains(save));
  disk_stops_ = false;
  Write();
  EXPECT_TRUE(replies_.at(save).ok());
  EXPECT_TRUE(disk_.contains("world/" + scope));
  Ask(SaveWorlds{.last_epoch = 3, .worlds = {{scope, std::nullopt}}});
  EXPECT_FALSE(disk_.contains("world/" + scope));
  EXPECT_EQ(disk_.at("last_world_epoch"), "3");
}

}  // namespace
}  // namespace remesh::server
