// SPDX-License-Identifier: Apache-2.0
// States of one name after another, and requests that come twice.
#include "server/controller/controller_test_world.h"

namespace remesh {
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
  void EndPlanning(uint64_t id) {
    PlannedMove move;
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
  *old.mutable_spec() = SpecOn({"a"});
  disk_ = {{"epoch", "4"}, {StateRecord(old).key, *StateRecord(old).bytes}};
  StartServer();
  const StreamId a = Attach("a", {Manifest("", 1)}, 4);
  EXPECT_EQ(Get().phase(), v1::State::READY);
  EXPECT_EQ(Forgotten(a), Uids());
  Delete();
  EXPECT_EQ(Forgotten(a), Uids{""});
}

TEST_F(ControllerStatesTest, AGenerationThatShouldNotBeThereIsRetired) {
  Attach("a");
  const v1::State made = Create({"a"});
  EXPECT_EQ(Count(Attach("a", {Manifest(made.uid(), 1)}), Command::kRetire), 0);
  const StreamId above = Attach("a", {Manifest(made.uid(), 1), Manifest(made.uid(), 2)});
  ASSERT_EQ(Count(above, Command::kRetire), 1);
  EXPECT_EQ(sent_[above][1].retire().generation(), 2);
  EXPECT_EQ(sent_[above][1].retire().state_uid(), made.uid());
  const StreamId elsewhere = Attach("b", {Manifest(made.uid(), 1)});
  EXPECT_EQ(Count(elsewhere, Command::kRetire), 1);
}

TEST_F(ControllerStatesTest, OnlyHostsThatWereAwayAreRememberedAndNotForEver) {
  const auto deletions = [&] {
    int count = 0;
    for (const auto& [key, bytes] : disk_) count += key.rfind("deleted/", 0) == 0;
    return count;
  };
  Attach("a");
  const StreamId b = Attach("b");
  Create({"a", "b"});
  Delete();
  EXPECT_EQ(deletions(), 0);
  Create({"a", "b"});
  Handle(StreamEnded{b});
  Delete();
  EXPECT_EQ(deletions(), 1);
  StartServer();
  Attach("a");
  EXPECT_EQ(deletions(), 1);
  Attach("b");
  EXPECT_EQ(deletions(), 0);
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

}  // namespace
}  // namespace remesh
