// SPDX-License-Identifier: Apache-2.0
// What the controller makes of workers that come, go and come back.
#include <gtest/gtest.h>

#include "server/controller/controller.h"

namespace remesh {
namespace {

using Command = v1::AttachResponse;

class ControllerWorkersTest : public testing::Test {
 protected:
  ControllerWorkersTest() {
    Restored restored;
    restored.epoch = 6;
    controller_ = std::make_unique<Controller>(
        ControllerOptions{}, [] { return uint64_t{1}; }, std::move(restored));
    Take(controller_->Start(Moment{}));
  }

  // Carries out what must be durable at once; remembers the rest.
  void Take(Actions actions) {
    for (Action& action : actions) {
      if (const Persist* persist = std::get_if<Persist>(&action)) {
        for (const Record& record : persist->records) {
          strangers_ = strangers_ || record.key == StrangersRecord().key;
        }
        Take(controller_->Handle(Persisted{persist->sequence}, Moment{}));
      } else if (SendToWorker* send = std::get_if<SendToWorker>(&action)) {
        sent_[send->stream].push_back(std::move(send->message));
      }
    }
  }

  void Say(StreamId stream, const v1::AttachRequest& message) {
    Take(controller_->Handle(StreamMessage{.stream = stream, .message = message}, Moment{}));
  }

  // A worker that holds something, so that its epoch matters.
  void Attach(StreamId stream, const std::string& host, uint64_t highest_epoch) {
    v1::AttachRequest first;
    v1::Register& registration = *first.mutable_register_();
    registration.set_host(host);
    registration.set_incarnation(1);
    registration.add_devices()->set_id(host == "a" ? 0 : 1);
    registration.set_nics(1);
    registration.set_nic_bytes_per_second(1e9);
    registration.set_fabric_bytes_per_second(1e9);
    registration.set_highest_epoch(highest_epoch);
    v1::StateManifest& manifest = *registration.add_manifests();
    manifest.set_state("jobs/j/states/unknown");
    manifest.set_generation(1);
    manifest.set_phase(v1::SHARD_PHASE_READY);
    Say(stream, first);
  }

  // A state that lies on one host only.
  void Create(const std::string& state, const std::string& host) {
    auto placed = std::make_shared<PlacedState>();
    placed->hosts[host].assignment.add_shards();
    placed->hosts[host].devices = {.device_ids = {0}, .local_devices = {0}};
    CreateState create{.request = {}, .placed = placed};
    create.request.mutable_state()->set_name(state);
    Take(controller_->Handle(Call{.id = 1, .request = create}, Moment{}));
  }
  void Want(StreamId stream, const std::string& state) {
    v1::AttachRequest wanted;
    wanted.mutable_state_wanted()->set_state(state);
    Say(stream, wanted);
  }

  // How often the stream was told so.
  int Count(StreamId stream, Command::CommandCase kind) {
    int count = 0;
    for (const Command& message : sent_[stream]) count += message.command_case() == kind;
    return count;
  }

  std::unique_ptr<Controller> controller_;
  std::map<StreamId, std::vector<Command>> sent_;
  bool strangers_ = false;  // the journal says so
};

TEST_F(ControllerWorkersTest, AWorkerThatComesBackToTheSameLeaderIsNoStranger) {
  Attach(1, "a", 0);
  ASSERT_EQ(Count(1, Command::kWelcome), 1);
  const uint64_t epoch = controller_->epoch();
  Take(controller_->Handle(StreamEnded{1}, Moment{}));
  Attach(2, "a", epoch);
  EXPECT_EQ(Count(2, Command::kWelcome), 1);
  EXPECT_EQ(controller_->epoch(), epoch);
  EXPECT_FALSE(strangers_);
  // What this leader does not know can still be discarded.
  EXPECT_EQ(Count(2, Command::kForgetState), 1);
}

TEST_F(ControllerWorkersTest, AWorkerOfAnotherLeaderOfOurEpochRaisesIt) {
  Attach(1, "a", 0);
  const uint64_t epoch = controller_->epoch();
  Attach(2, "b", epoch);  // never commanded by us
  EXPECT_EQ(controller_->epoch(), epoch + 1);
  EXPECT_TRUE(strangers_);
  ASSERT_EQ(Count(2, Command::kWelcome), 1);
  EXPECT_EQ(sent_[2].front().epoch(), epoch + 1);
  EXPECT_EQ(Count(2, Command::kForgetState), 0);
  // The first one came by the higher epoch from us.
  Take(controller_->Handle(StreamEnded{1}, Moment{}));
  Attach(3, "a", epoch + 1);
  EXPECT_EQ(controller_->epoch(), epoch + 1);
}

TEST_F(ControllerWorkersTest, AHigherEpochIsNeverOurs) {
  Attach(1, "a", 0);
  const uint64_t epoch = controller_->epoch();
  Take(controller_->Handle(StreamEnded{1}, Moment{}));
  Attach(2, "a", epoch + 5);
  EXPECT_EQ(controller_->epoch(), epoch + 6);
  EXPECT_TRUE(strangers_);
}

TEST_F(ControllerWorkersTest, AHostWithoutShardsIsToldWhenItsTrainerAsks) {
  constexpr char kState[] = "jobs/j/states/s";
  Attach(1, "a", 0);
  Attach(2, "b", 0);
  Want(2, kState);  // before it exists
  EXPECT_EQ(Count(2, Command::kAssignState), 0);
  Create(kState, "a");
  ASSERT_EQ(Count(2, Command::kAssignState), 1);
  const v1::Assignment& assignment = sent_[2].back().assign_state().assignment();
  EXPECT_EQ(assignment.state(), kState);
  EXPECT_EQ(assignment.generation(), 1);
  EXPECT_TRUE(assignment.shards().empty());
  EXPECT_FALSE(assignment.committed());
  Want(2, kState);  // and after
  EXPECT_EQ(Count(2, Command::kAssignState), 2);
  Want(1, kState);  // has shards, and was told of them
  ASSERT_EQ(Count(1, Command::kAssignState), 1);
  EXPECT_EQ(sent_[1].back().assign_state().assignment().shards_size(), 1);
}

TEST_F(ControllerWorkersTest, WhoWasToldOfAStateHearsOfItsEnd) {
  constexpr char kState[] = "jobs/j/states/s";
  Attach(1, "a", 0);
  Attach(2, "b", 0);
  const int before = Count(2, Command::kForgetState);  // of what it held
  Create(kState, "a");
  Want(2, kState);
  v1::DeleteStateRequest remove;
  remove.set_name(kState);
  Take(controller_->Handle(Call{.id = 2, .request = remove}, Moment{}));
  EXPECT_EQ(Count(2, Command::kForgetState), before + 1);
  Create(kState, "b");
  ASSERT_EQ(Count(2, Command::kAssignState), 2);
  EXPECT_EQ(sent_[2].back().assign_state().assignment().shards_size(), 1);
}

TEST_F(ControllerWorkersTest, ALostWorkerIsNoLongerWaitedFor) {
  Attach(1, "a", 0);
  Attach(2, "b", 0);
  Want(2, "jobs/j/states/s");
  Take(controller_->Handle(StreamEnded{2}, Moment{}));
  Attach(3, "b", 7);
  Create("jobs/j/states/s", "a");
  EXPECT_EQ(Count(3, Command::kAssignState), 0);
}

}  // namespace
}  // namespace remesh
