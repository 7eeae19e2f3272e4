// SPDX-License-Identifier: Apache-2.0
// Writes that are committed once, and updates of states, by what is on disk.
#include <cctype>

#include "absl/strings/str_cat.h"
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

// Regression: with a journal from before the commit, accepted by hand, it was BUILDING, and what
// was filled again on "b" was mixed with the shards of "a".
TEST_F(ControllerWriteOnceTest, AHostThatSawTheCommitBringsAnOlderJournalBackToIt) {
  const auto before = disk_;
  SealAll();
  disk_ = before;
  StartServer();
  v1::StateManifest told = Manifest(uid_, 1);
  told.set_write_committed(true);
  b_ = Attach("b");
  EXPECT_EQ(Records("write_committed/"), 0);
  a_ = Attach("a", {told});
  EXPECT_EQ(Records("write_committed/"), 1);
  EXPECT_EQ(Get().phase(), v1::State::LOST);
  EXPECT_EQ(Get().lost_hosts(0), "b");
}

// Regression: "b" was assigned its shards at once, and what was filled and sealed there before "a"
// came was taken for what was committed.
TEST_F(ControllerWriteOnceTest, NoHostIsFilledAgainWhileOneMayKnowOfACommit) {
  const auto before = disk_;
  SealAll();
  disk_ = before;
  StartServer();
  b_ = Attach("b");  // its machine was booted
  EXPECT_EQ(Count(b_, Command::kAssignState), 0);
  v1::StateManifest told = Manifest(uid_, 1);
  told.set_write_committed(true);
  a_ = Attach("a", {told});
  EXPECT_EQ(Get().phase(), v1::State::LOST);
  ASSERT_EQ(Count(b_, Command::kAssignState), 1);
  EXPECT_TRUE(sent_[b_].back().assign_state().assignment().committed());
}

TEST_F(ControllerWriteOnceTest, AHostIsFilledOnceNoOtherKnowsOfACommit) {
  StartServer();
  b_ = Attach("b");
  EXPECT_EQ(Count(b_, Command::kAssignState), 0);
  a_ = Attach("a");
  for (const StreamId stream : {a_, b_}) {
    ASSERT_EQ(Count(stream, Command::kAssignState), 1);
    EXPECT_FALSE(sent_[stream].back().assign_state().assignment().committed());
  }
  b_ = Attach("b");  // booted once more
  EXPECT_EQ(Count(b_, Command::kAssignState), 1) << "all have been heard";
  SealAll();
  EXPECT_EQ(Get().phase(), v1::State::READY);
}

// Regression: its trainers could have unsealed what they got.
TEST_F(ControllerWriteOnceTest, NothingMovesToAWorkerThatIsTooOld) {
  SealAll();
  v1::Register old = Identity("c");
  old.set_supports_write_once(false);
  Attach(old);
  EXPECT_EQ(GetErrorInfo(Start(-1, "c").status()).reason, "WORKER_TOO_OLD");
  EXPECT_TRUE(Start().ok());
}

// Regression: a job that created a state just after a restart was told that its devices do not
// exist.
TEST_F(ControllerWriteOnceTest, WhileHostsAreAwaitedAMisfitMayBeTriedAgain) {
  const auto create = [this] {
    CreateState misfit{
        .request = {}, .placed = nullptr, .misfit = InvalidField("devices", "9", "x")};
    misfit.request.mutable_state()->set_name("jobs/j/states/other");
    return replies_.at(Ask(std::move(misfit))).status();
  };
  EXPECT_EQ(GetErrorInfo(create()).reason, "INVALID_FIELD") << "all hosts are here";
  StartServer();
  Attach("a", {Manifest(uid_, 1)});
  absl::Status awaited = create();
  EXPECT_TRUE(absl::IsUnavailable(awaited));
  EXPECT_EQ(GetErrorInfo(awaited).reason, "HOSTS_AWAITED");
  EXPECT_EQ(GetErrorInfo(awaited).metadata.at("hosts"), "b");
  EXPECT_EQ(GetErrorInfo(awaited).metadata.at("count"), "1");
  now_.steady += options_.lost_after + std::chrono::seconds(1);
  EXPECT_EQ(GetErrorInfo(create()).reason, "INVALID_FIELD") << "b is lost";
}

// Saves of a job on many hosts, each written once and deleted when the next is committed.
class ManySavesTest : public ControllerTestWorld {
 protected:
  static constexpr int kHosts = 62;

  // One a letter or digit, because their devices and secrets are made of that.
  void SetUp() override {
    options_.tombstones_max = 8;  // confirmed deletions that the journal remembers, a row each
    StartServer();
    for (int i = 0; i < 128; ++i) {
      if (!std::isalnum(i)) continue;
      const std::string host(1, static_cast<char>(i));
      streams_[host] = Attach(host);
    }
    ASSERT_EQ(streams_.size(), kHosts);
  }
  static std::string NameOf(int save) { return absl::StrCat("jobs/j/states/save.", save); }

  // Returns the state's uid.
  std::string Save(int number) {
    std::vector<std::string> hosts;
    for (const auto& [host, stream] : streams_) hosts.push_back(host);
    CreateState create{.request = {}, .placed = Place(SpecOn(hosts))};
    spec_bytes_ = create.placed->spec.ByteSizeLong();
    create.request.mutable_state()->set_name(NameOf(number));
    create.request.mutable_state()->set_write_once(true);
    create.request.set_request_id(std::string(36, 'r'));
    const std::string uid = std::get<v1::State>(*replies_.at(Ask(create))).uid();
    for (const auto& [host, stream] : streams_) Seal(stream, Manifest(uid, 1, NameOf(number)));
    return uid;
  }
  void Remove(int number, const std::string& uid) {
    v1::DeleteStateRequest remove;
    remove.set_name(NameOf(number));
    remove.set_uid(uid);
    EXPECT_TRUE(replies_.at(Ask(remove)).ok());
    v1::AttachRequest forgotten;
    forgotten.mutable_forgotten()->set_state(NameOf(number));
    forgotten.mutable_forgotten()->set_state_uid(uid);
    for (const auto& [host, stream] : streams_) Send(stream, forgotten);
  }

  std::map<std::string, StreamId> streams_;
  size_t spec_bytes_ = 0;
};

TEST_F(ManySavesTest, TheJournalGrowsByTheSpecAndLittleMoreForEachHost) {
  constexpr int kSaves = 50;
  size_t rows = 0;
  std::string before;
  for (int save = 0; save < kSaves; ++save) {
    persisted_bytes_ = 0;
    const std::string uid = Save(save);
    if (save > 0) Remove(save - 1, before);
    before = uid;
    if (save > 0) {
      EXPECT_LE(persisted_bytes_, spec_bytes_ + 400u * kHosts) << "of save " << save;
    }
    if (save == 10) rows = disk_.size();
  }
  EXPECT_EQ(disk_.size(), rows);
}

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
