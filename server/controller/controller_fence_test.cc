// SPDX-License-Identifier: Apache-2.0
// Calls of processes of an earlier world change nothing, also if the next world forms while they
// wait.
#include <vector>

#include "server/controller/testing/controller_moves_test_world.h"

namespace remesh::server {
namespace {

class ControllerFenceTest : public ControllerMovesTest {
 protected:
  ControllerFenceTest() {
    options_.is_present = [this](const std::string& scope, int64_t epoch) {
      return epoch == present_ ? absl::OkStatus() : NoWorlds(scope, epoch);
    };
    StartServer();
  }

  static void Fence(v1::Fence& fence, int64_t epoch, const std::string& job = "j") {
    fence.set_scope("jobs/" + job + "/worlds/main");
    fence.set_epoch(epoch);
  }
  std::vector<Request> ChangesOf(int64_t epoch, const std::string& job = "j") {
    CreateState create{.request = {}, .placed = Place(SpecOn({"a"}))};
    create.request.mutable_state()->set_name("jobs/j/states/new");
    Fence(*create.request.mutable_fence(), epoch, job);
    v1::UpdateStateRequest update;
    update.set_name(kState);
    update.set_uid(uid_);
    Fence(*update.mutable_fence(), epoch, job);
    v1::StartExecutionRequest start = StartRequest(epoch);
    Fence(*start.mutable_fence(), epoch, job);
    v1::DeleteStateRequest remove;
    remove.set_name(kState);
    Fence(*remove.mutable_fence(), epoch, job);
    return {create, update, start, remove};
  }
  static v1::StartExecutionRequest StartRequest(int64_t epoch) {
    v1::StartExecutionRequest start;
    start.set_state(kState);
    start.set_expected_generation(1);
    start.set_plan("plans/p");
    Fence(*start.mutable_fence(), epoch);
    return start;
  }
  static PlannedExecution MoveToBoth() {
    PlannedExecution move;
    move.target = Place(SpecOn({"a", "b"}));
    for (const char* host : {"a", "b"}) {
      move.hosts[host] = {.device_ids = {0}, .local_devices = {0}};
    }
    move.plan = "plans/p";
    return move;
  }
  std::string ReasonOf(CallId call) { return GetErrorInfo(replies_.at(call).status()).reason; }

  int64_t present_ = 7;
};

TEST_F(ControllerFenceTest, AnEarlierWorldChangesNothing) {
  present_ = 8;
  const std::map<std::string, std::string> disk = disk_;
  for (const Request& request : ChangesOf(7)) EXPECT_EQ(ReasonOf(Ask(request)), "STALE_EPOCH");
  EXPECT_EQ(disk_, disk);
  EXPECT_TRUE(plannings_.empty());
  EXPECT_EQ(Get().uid(), uid_);
}

TEST_F(ControllerFenceTest, ThePresentWorldMayChangeItsStates) {
  const std::vector<Request> changes = ChangesOf(7);
  EXPECT_TRUE(replies_.at(Ask(changes[0])).ok());
  const CallId update = Ask(changes[1]);
  EXPECT_TRUE(replies_.at(update).ok()) << replies_.at(update).status();
  EXPECT_TRUE(replies_.at(Ask(changes[3])).ok());
}

TEST_F(ControllerFenceTest, AWorldOfAnotherJobIsRefusedByName) {
  for (const Request& request : ChangesOf(7, "k")) {
    const absl::Status status = replies_.at(Ask(request)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(GetErrorInfo(status).metadata["field"], "fence.scope");
  }
}

TEST_F(ControllerFenceTest, AMoveIsNotStartedIfTheNextWorldFormedWhileItWasPlanned) {
  const CallId call = Ask(StartRequest(7));
  ASSERT_EQ(plannings_.size(), 1u);
  present_ = 8;
  Handle(Planned{.id = plannings_.back(), .move = MoveToBoth()});
  EXPECT_EQ(ReasonOf(call), "STALE_EPOCH");
  EXPECT_EQ(Get().phase(), v1::State::READY);
  // The state is free for the next world.
  const CallId next = Ask(StartRequest(8));
  Handle(Planned{.id = plannings_.back(), .move = MoveToBoth()});
  EXPECT_TRUE(replies_.at(next).ok()) << replies_.at(next).status();
}

TEST_F(ControllerFenceTest, ARepeatedCallOfAnEarlierWorldIsRefusedToo) {
  std::vector<Request> changes = ChangesOf(7);
  std::get<CreateState>(changes[0]).request.set_request_id("once");
  EXPECT_TRUE(replies_.at(Ask(changes[0])).ok());
  EXPECT_TRUE(replies_.at(Ask(changes[0])).ok());
  present_ = 8;
  EXPECT_EQ(ReasonOf(Ask(changes[0])), "STALE_EPOCH");
}

}  // namespace
}  // namespace remesh::server
