// SPDX-License-Identifier: Apache-2.0
// Writes that are committed once, and updates of states, by what is on disk.
#include "server/controller/testing/controller_moves_test_world.h"

namespace remesh::server {
namespace {

class ControllerWriteOnceTest : public ControllerTestWorld {
 protected:
  void SetUp() override {
    a_ = Attach("a");
    b_ = Attach("b");
    CreateState create{.request = {}, .placed = Place(SpecOn({"a", "b"}))};
    create.request.mutable_state()->set_name(kState);
    create.request.mutable_state()->set_write_once(true);
    uid_ = std::get<v1::State>(*replies_.at(Ask(create))).uid();
  }
  void SealAll() {
    for (const StreamId stream : {a_, b_}) Seal(stream, Manifest(uid_, 1));
  }
  void Restart() {
    StartServer();
    a_ = Attach("a", {Manifest(uid_, 1)});
    b_ = Attach("b", {Manifest(uid_, 1)});
  }
  CallId Update(int64_t step) {
    v1::UpdateStateRequest request;
    request.set_name(kState);
    request.set_uid(uid_);
    request.set_step(step);
    return Ask(request);
  }
  absl::StatusOr<Reply> Start(int64_t lost_device = -1, const std::string& target = "a") {
    v1::StartExecutionRequest request;
    request.set_state(kState);
    request.set_expected_generation(1);
    request.mutable_targets();
    if (lost_device >= 0) request.mutable_options()->add_lost_device_ids(lost_device);
    const size_t asked = plannings_.size();
    const CallId call = Ask(request);
    if (plannings_.size() == asked) return replies_.at(call);
    PlannedExecution move;
    move.target = Place(SpecOn({target}));
    move.hosts[target] = {.device_ids = {0}, .local_devices = {0}};
    if (lost_device >= 0) move.spared_hosts = {"b"};
    move.plan = "plans/p";
    Handle(Planned{.id = plannings_.back(), .move = move});
    return replies_.at(call);
  }
  int Records(const std::string& prefix) {
    int count = 0;
    for (const auto& [key, bytes] : disk_) count += key.starts_with(prefix);
    return count;
  }

  StreamId a_ = 0, b_ = 0;
  std::string uid_;
};

TEST_F(ControllerWriteOnceTest, ACommitIsOnDiskBeforeAnybodyLearnsOfIt) {
  disk_stops_ = true;
  SealAll();
  EXPECT_EQ(Get().phase(), v1::State::BUILDING);
  EXPECT_EQ(Count(a_, Command::kCommitWrite), 0);
  EXPECT_EQ(Records("write_committed/"), 0);
  Write();
  EXPECT_EQ(Get().phase(), v1::State::READY);
  for (const StreamId stream : {a_, b_}) {
    ASSERT_EQ(Count(stream, Command::kCommitWrite), 1);
    EXPECT_EQ(sent_[stream].back().position().sequence(), past_.sequence)
        << "a journal that goes back would not be found out";
  }
}

TEST_F(ControllerWriteOnceTest, ACommitSurvivesTheServer) {
  SealAll();
  StartServer();
  a_ = Attach("a", {Manifest(uid_, 1)});
  b_ = Attach("b");                           // its machine was booted
  EXPECT_EQ(Get().phase(), v1::State::LOST);  // was: BUILDING, and filled again
  EXPECT_TRUE(sent_[b_].back().assign_state().assignment().committed());
  EXPECT_TRUE(sent_[a_].back().assign_state().assignment().committed());
  Restart();
  EXPECT_EQ(Get().phase(), v1::State::READY);
  EXPECT_EQ(Count(a_, Command::kCommitWrite), 0) << "the assignment says it";
}

TEST_F(ControllerWriteOnceTest, AWriteWhoseCommitIsLostIsCommittedAgain) {
  disk_stops_ = true;
  SealAll();
  disk_stops_ = false;
  Restart();  // without what was on its way
  EXPECT_EQ(Get().phase(), v1::State::READY);
  EXPECT_EQ(Count(a_, Command::kCommitWrite), 1);
  EXPECT_EQ(disk_.at(std::string("write_committed/") + kState), uid_);
}

TEST_F(ControllerWriteOnceTest, AHostThatWasToldOfACommitRevealsAJournalWithoutIt) {
  const std::map<std::string, std::string> before = disk_;
  const JournalPast past = past_;
  SealAll();
  disk_ = before;
  past_ = past;
  StartServer();
  EXPECT_FALSE(controller_->journal_behind());
  a_ = Attach("a", {Manifest(uid_, 1)});
  EXPECT_TRUE(controller_->journal_behind());
  b_ = Attach("b", {Manifest(uid_, 1)});
  EXPECT_EQ(Count(a_, Command::kCommitWrite) + Count(b_, Command::kCommitWrite), 0);
  EXPECT_FALSE(disk_.contains(std::string("write_committed/") + kState));
}

TEST_F(ControllerWriteOnceTest, AWriteIsNotMovedBeforeItsCommit) {
  disk_stops_ = true;
  SealAll();
  EXPECT_EQ(GetErrorInfo(Start().status()).reason, "STATE_NOT_READY");
  EXPECT_EQ(GetErrorInfo(Start('b').status()).reason, "STATE_NOT_READY");
  Write();
  disk_stops_ = false;
  EXPECT_TRUE(Start().ok());
}

TEST_F(ControllerWriteOnceTest, TheSpecIsNotWrittenAgain) {
  const std::string before = disk_.at(std::string("state/") + kState);
  Update(7);
  SealAll();
  EXPECT_EQ(disk_.at(std::string("state/") + kState), before);
  EXPECT_LT(disk_.at(std::string("update/") + kState).size(), 60u);
  EXPECT_LT(disk_.at(std::string("write_committed/") + kState).size(), 60u);
}

TEST_F(ControllerWriteOnceTest, AnUpdateSurvivesTheServerAndTheMoveOfTheState) {
  EXPECT_TRUE(replies_.at(Update(7)).ok());
  Restart();
  EXPECT_EQ(Get().step(), 7);
  EXPECT_EQ(Get().phase(), v1::State::READY);
  EXPECT_TRUE(replies_.at(Update(7)).ok());
  EXPECT_EQ(GetErrorInfo(replies_.at(Update(8)).status()).reason, "STATE_COMMITTED");
  EXPECT_EQ(Get().step(), 7);
}

// Whatever was answered OK before the state is READY is its step then.
TEST_F(ControllerWriteOnceTest, AnUpdateThatWaitsForTheDiskWhenTheLastSealArrivesCounts) {
  disk_stops_ = true;
  const CallId update = Update(7);
  SealAll();
  const CallId late = Update(8);
  EXPECT_EQ(GetErrorInfo(replies_.at(late).status()).reason, "STATE_COMMITTED");
  EXPECT_FALSE(replies_.contains(update));
  Write();
  EXPECT_TRUE(replies_.at(update).ok());
  EXPECT_EQ(Get().phase(), v1::State::READY);
  EXPECT_EQ(Get().step(), 7);
}

TEST_F(ControllerWriteOnceTest, ADeletedStateLeavesNoRecord) {
  Update(7);
  SealAll();
  EXPECT_EQ(Records("update/") + Records("write_committed/"), 2);
  Delete();
  EXPECT_EQ(Records("update/") + Records("write_committed/"), 0);
  Create({"a", "b"});
  EXPECT_EQ(Get().step(), 0);
  StartServer();
}

TEST_F(ControllerWriteOnceTest, RecordsOfAnotherStateAreRefusedByTheirKeys) {
  SealAll();
  Update(0);
  for (const char* kind : {"write_committed/", "update/"}) {
    auto damaged = disk_;
    v1::State other;
    other.set_uid("another");
    damaged[std::string(kind) + kState] = other.SerializeAsString();
    const auto read = ReadRecords(damaged, [](const v1::StateSpec& spec) { return Place(spec); });
    EXPECT_EQ(GetErrorInfo(read.status()).metadata["key"], std::string(kind) + kState);
  }
}

}  // namespace
}  // namespace remesh::server
