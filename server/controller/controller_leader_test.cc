// SPDX-License-Identifier: Apache-2.0
// Epochs, and workers that followed other planners.
#include "server/controller/controller_test_world.h"

namespace remesh {
namespace {

class ControllerLeaderTest : public ControllerTestWorld {
 protected:
  bool Strangers() { return disk_.contains(StrangersRecord().key); }
};

TEST_F(ControllerLeaderTest, NobodyIsGreetedBeforeTheEpochIsOnDisk) {
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

TEST_F(ControllerLeaderTest, WhoComesBackToItsLeaderIsNoStranger) {
  Attach("a");
  const uint64_t epoch = controller_->epoch();
  const StreamId again = Attach("a", {Manifest("gone", 1)}, epoch);
  EXPECT_EQ(controller_->epoch(), epoch);
  EXPECT_FALSE(Strangers());
  EXPECT_EQ(Count(again, Command::kForgetState), 1);
}

TEST_F(ControllerLeaderTest, WhatIsUnknownStaysUntilAllWhoAreKnownHoldNothingUnknown) {
  const StreamId a = Attach("a");
  const v1::State state = Create({"a"});
  EXPECT_FALSE(Strangers());
  const StreamId b = Attach("b", {Manifest("other", 1, "jobs/j/states/unknown")}, 100);
  EXPECT_TRUE(Strangers());
  EXPECT_EQ(Count(b, Command::kForgetState), 0);
  StartServer();
  Attach("a", {Manifest(state.uid(), 1)}, 101);
  EXPECT_TRUE(Strangers());  // b is known, and away
  Attach("b", {}, 101);
  EXPECT_FALSE(Strangers());
  EXPECT_EQ(Count(Attach("b", {Manifest("other", 1, "jobs/j/states/unknown")}, 150),
                  Command::kForgetState),
            0);  // of yet another planner
  EXPECT_TRUE(Strangers());
}

// The journal is lost; whom the first worker to come holds nothing of must not lose it.
TEST_F(ControllerLeaderTest, AHostThatANewJournalNeverSawKeepsWhatIsUnknown) {
  Attach("a", {}, 50);
  const StreamId b = Attach("b", {Manifest("u", 3)}, 50);
  EXPECT_EQ(Count(b, Command::kWelcome), 1);
  EXPECT_EQ(Count(b, Command::kForgetState), 0);
  EXPECT_TRUE(Strangers());
}

}  // namespace
}  // namespace remesh
