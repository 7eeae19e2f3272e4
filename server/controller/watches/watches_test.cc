// SPDX-License-Identifier: Apache-2.0
#include "server/controller/watches/watches.h"

#include "server/controller/testing/executions_test_world.h"

namespace remesh::server {
namespace {

class WatchesTest : public ExecutionsTestWorld {
 protected:
  Watches watches_{membership_.workers(), states_.registry(), executions_};
};

TEST_F(WatchesTest, TellTheValueNowAndAfterEveryTouch) {
  watches_.OnStarted({.id = 1, .name = kState}, out_);
  ASSERT_EQ(Did<Notify>().size(), 1u);
  watches_.NotifyTouched(out_);
  EXPECT_EQ(Did<Notify>().size(), 1u);
  out_.Touch(kState);
  out_.Touch("jobs/j/states/unwatched");
  watches_.NotifyTouched(out_);
  EXPECT_EQ(Did<Notify>().size(), 2u);
  watches_.OnEnded(1);
  out_.Touch(kState);
  watches_.NotifyTouched(out_);
  EXPECT_EQ(Did<Notify>().size(), 2u);
}

// Regression: the strand copied the value for each watch, and some thousands of watches of one
// large state took gigabytes.
TEST_F(WatchesTest, AllWhoWatchTheSameShareItsValue) {
  for (WatchId watch = 1; watch <= 3; ++watch) {
    watches_.OnStarted({.id = watch, .name = kState}, out_);
  }
  out_.Touch(kState);
  watches_.NotifyTouched(out_);
  const auto told = Did<Notify>();
  ASSERT_EQ(told.size(), 6u);
  EXPECT_EQ(told[3].value, told[4].value);
  EXPECT_EQ(told[3].value, told[5].value);
}

// Each of N hosts changes the value, which names N hosts.
TEST_F(WatchesTest, WhatHasManyHostsIsToldOnceATick) {
  auto placed = std::make_shared<PlacedState>(*states_.registry().Find(kState)->placed);
  for (size_t i = 0; i <= Watches::kPromptHosts; ++i) placed->hosts["h" + std::to_string(i)] = {};
  states_.EndExecution({.state = kState, .generation = 2, .target = placed}, out_);
  watches_.OnStarted({.id = 1, .name = kState}, out_);
  ASSERT_EQ(Did<Notify>().size(), 1u);
  for (int i = 0; i < 1000; ++i) {
    out_.Touch(kState);
    watches_.NotifyTouched(out_);
  }
  EXPECT_EQ(Did<Notify>().size(), 1u);
  watches_.OnTick(out_);
  EXPECT_EQ(Did<Notify>().size(), 2u);
  watches_.OnTick(out_);
  EXPECT_EQ(Did<Notify>().size(), 2u) << "nothing has changed since";
}

TEST_F(WatchesTest, EndWithWhatTheyWatch) {
  watches_.OnStarted({.id = 1, .name = "jobs/j/states/none"}, out_);
  EXPECT_EQ(Did<EndWatch>().at(0).status.code(), absl::StatusCode::kNotFound);
  watches_.OnStarted({.id = 2, .name = "none"}, out_);
  EXPECT_EQ(Did<EndWatch>().at(1).status.code(), absl::StatusCode::kInvalidArgument);
  const std::string name = Launch();
  watches_.OnStarted({.id = 3, .name = name}, out_);
  EXPECT_EQ(std::get<v1::Execution>(*Did<Notify>().at(0).value).name(), name);
  executions_.Cancel(5, name, now_, out_);
  executions_.OnSaved(LastSave(), now_, out_);
  watches_.NotifyTouched(out_);
  EXPECT_TRUE(Did<EndWatch>().at(2).status.ok());
}

}  // namespace
}  // namespace remesh::server
