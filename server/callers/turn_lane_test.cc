// SPDX-License-Identifier: Apache-2.0
#include "server/callers/turn_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace remesh::server {
namespace {

class TurnLaneTest : public testing::Test {
 protected:
  static constexpr size_t kInTurn = 3;

  // Runs what `post` posts, in a strand that does nothing else until all is posted.
  template <typename F>
  std::vector<std::string> Run(F post) {
    absl::Notification posted;
    strand_.Post([&] { posted.WaitForNotification(); });
    post();
    posted.Notify();
    strand_.Stop();
    return order_;
  }
  // A lane must not end before the strand has left it.
  void Await(absl::Notification& done) {
    done.WaitForNotification();
    strand_.Stop();
  }
  Strand::Task Note(const std::string& name) {
    return [this, name] { order_.push_back(name); };
  }

  std::vector<std::string> order_;  // after its destruction nothing runs
  Strand strand_;
  TurnLane lane_{strand_, kInTurn};
};

TEST_F(TurnLaneTest, OthersWaitForOneTurn) {
  absl::Notification done;
  absl::Notification posted;
  strand_.Post([&] { posted.WaitForNotification(); });
  for (const char* name : {"1", "2", "3", "4", "5", "6", "7"}) lane_.Push(Note(name));
  strand_.Post(Note("other"));
  lane_.Push([&] { done.Notify(); });
  posted.Notify();
  Await(done);
  EXPECT_EQ(order_, std::vector<std::string>({"1", "2", "3", "other", "4", "5", "6", "7"}));
}

TEST_F(TurnLaneTest, LanesTakeTurns) {
  TurnLane other(strand_, 1);
  absl::Notification done;
  absl::Notification posted;
  strand_.Post([&] { posted.WaitForNotification(); });
  for (const char* name : {"1", "2", "3", "4"}) lane_.Push(Note(name));
  for (const char* name : {"a", "b", "c"}) other.Push(Note(name));
  other.Push([&] { done.Notify(); });
  posted.Notify();
  Await(done);
  EXPECT_EQ(order_, std::vector<std::string>({"1", "2", "3", "a", "4", "b", "c"}));
}

TEST_F(TurnLaneTest, ATurnThatTakesLongEnds) {
  constexpr int kTasks = 200;  // a turn of these is 12
  absl::Notification done;
  absl::Notification posted;
  strand_.Post([&] { posted.WaitForNotification(); });
  for (int i = 0; i < kTasks; ++i) {
    lane_.Push([this] {
      absl::SleepFor(absl::Milliseconds(4));
      order_.push_back("slow");
    });
  }
  strand_.Post([&] {
    order_.push_back("other");
    done.Notify();
  });
  posted.Notify();
  Await(done);
  const auto other = std::find(order_.begin(), order_.end(), "other");
  EXPECT_EQ(other - order_.begin(), kInTurn);
}

// Regression: a caller whose calls each made thousands of commands filled the memory with them.
TEST_F(TurnLaneTest, TasksThatComeFasterThanATurnDoNotPileUp) {
  constexpr size_t kRounds = 2000, kPushed = 10;
  static_assert(kPushed > kInTurn);
  size_t waiting = 0, most = 0, rounds = 0;
  absl::Notification done;
  std::function<void()> round = [&] {
    for (size_t i = 0; i < kPushed; ++i) lane_.Push([&] { --waiting; });
    most = std::max(most, waiting += kPushed);
    if (++rounds == kRounds) return done.Notify();
    strand_.Post([&] { round(); });
  };
  strand_.Post([&] { round(); });
  Await(done);
  EXPECT_LE(most, 20 * kPushed);
  EXPECT_EQ(waiting, 0u);
}

TEST_F(TurnLaneTest, ATaskMayPush) {
  absl::Notification done;
  lane_.Push([&] {
    lane_.Push([&] { done.Notify(); });
    order_.push_back("first");
  });
  Await(done);
  EXPECT_EQ(order_, std::vector<std::string>({"first"}));
}

TEST_F(TurnLaneTest, QuietTasksRunInTheirPlaceOnceTheLaneWakes) {
  absl::Notification done;
  lane_.PushQuietly(Note("1"));
  lane_.PushQuietly(Note("2"));
  absl::Notification others;  // the strand has nothing of the lane to run
  strand_.Post([&] {
    order_.push_back("other");
    others.Notify();
  });
  others.WaitForNotification();
  lane_.Push(Note("3"));
  lane_.PushQuietly([&] { done.Notify(); });
  lane_.Wake();
  Await(done);
  EXPECT_EQ(order_, std::vector<std::string>({"other", "1", "2", "3"}));
}

// As a strand does with what was posted to it.
TEST_F(TurnLaneTest, AStrandThatStopsRunsAllThatWaits) {
  const std::vector<std::string> order = Run([&] {
    for (const char* name : {"1", "2", "3", "4", "5", "6", "7"}) lane_.Push(Note(name));
  });
  EXPECT_EQ(order.size(), 7u);
}

TEST_F(TurnLaneTest, AStoppedStrandDestroysWhatIsPushed) {
  strand_.Stop();
  const auto held = std::make_shared<int>();
  lane_.Push([held] {});
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace remesh::server
