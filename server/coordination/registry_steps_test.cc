// SPDX-License-Identifier: Apache-2.0
// How members are asked to leave, and agree on the step.
#include "server/coordination/testing/registry_fixture.h"

namespace remesh::server::coordination {
namespace {

TEST_F(RegistryTest, AllSaveAtOneAboveTheHighestStep) {
  Form(3);
  EXPECT_EQ(Preempt("SIGTERM", 2), "OK");
  EXPECT_NE(told_[3].find("preempt { by: \"SIGTERM\" next_size: 2 resize: true }"),
            std::string::npos);
  AgreeStep(10, 1, 4);
  AgreeStep(11, 2, 6);
  EXPECT_EQ(answers_.count(10), 0u);
  AgreeStep(12, 3, -1);
  for (const CallId call : {10, 11, 12}) EXPECT_EQ(answers_[call], "7 for 2");
  AgreeStep(13, 1, 4);
  EXPECT_EQ(answers_[13], "7 for 2") << "asked again";
}

TEST_F(RegistryTest, TheLastSizeThatIsAskedForBeforeTheStepHolds) {
  Form(2);
  EXPECT_EQ(Preempt("SIGTERM"), "OK");
  EXPECT_EQ(Preempt("another SIGTERM", 0, /*epoch=*/1), "OK");
  EXPECT_EQ(CountOf(told_[1], "preempt"), 1) << "it is known already";
  EXPECT_EQ(Preempt("resize", 6), "OK");
  EXPECT_EQ(Preempt("resize", 5), "OK");
  EXPECT_EQ(Preempt("SIGTERM, too"), "OK");
  EXPECT_EQ(CountOf(told_[1], "preempt"), 3);
  AgreeStep(10, 1, 4);
  AgreeStep(11, 2, 4);
  EXPECT_EQ(answers_[11], "5 for 5");
  EXPECT_EQ(Preempt("too late", 3), "WORLD_LEAVES");
  EXPECT_EQ(Preempt("SIGTERM to a member of an earlier world", 0, 7), "STALE_EPOCH");
}

TEST_F(RegistryTest, AWorldWithoutMembersIsNotResized) {
  EXPECT_EQ(Preempt("resize", 6), "WORLD_NOT_FOUND");
  ASSERT_TRUE(Join(1, 1, 2, 0).ok());
  EXPECT_EQ(Preempt("resize", 6), "WORLD_NOT_FOUND") << "it has not formed";
  ASSERT_TRUE(Join(2, 2, 2, 1).ok());
  EndSession(1);
  Pass(kRejoinTime);
  EXPECT_EQ(Preempt("resize", 6), "WORLD_OVER");
  Restart(5, {{kMain, {.epoch = 5, .size = 1, .formed = kBegin}}});
  EXPECT_EQ(Preempt("resize", 6), "JOIN_AGAIN");
  Pass(kReturnTime);
  EXPECT_EQ(Preempt("resize", 6), "WORLD_OVER");
}

// Regression: a resize of a job that never asks whether it leaves looked like any other.
TEST_F(RegistryTest, AListedWorldNamesThoseWhoHaveNotNamedTheirStep) {
  Form(3);
  Exchange(9, 1, 1);
  EXPECT_EQ(ListedWaiting(), "save: 1 2; ") << "no one is asked for a step";
  EXPECT_EQ(Preempt("resize", 6), "OK");
  EXPECT_EQ(ListedWaiting(), "AgreeStep: 0 1 2; save: 1 2; ");
  AgreeStep(10, 2, 4);
  EXPECT_EQ(ListedWaiting(), "AgreeStep: 0 2; save: 1 2; ");
  AgreeStep(11, 1, 4);
  AgreeStep(12, 3, 6);
  EXPECT_EQ(ListedWaiting(), "save: 1 2; ") << "they leave after step 7";
}

// Regression: a resize that a death came before looked like one that was carried out.
TEST_F(RegistryTest, AWorldThatEndsBeforeAllHaveNamedTheirStepSaysSo) {
  Form(2);
  EXPECT_EQ(Preempt("resize", 6), "OK");
  AgreeStep(10, 2, 4);
  EndSession(1);
  Pass(kRejoinTime);
  EXPECT_EQ(answers_[10], "MEMBER_LOST");
  EXPECT_EQ(ListedWaiting(), "AgreeStep: 0 1; ");
}

TEST_F(RegistryTest, NoStepIsAgreedOnOnceAMemberHasLeft) {
  Form(3);
  EXPECT_EQ(Preempt("SIGTERM"), "OK");
  AgreeStep(10, 1, 4);
  Leave(2);
  AgreeStep(11, 3, 4);
  for (const CallId call : {10, 11}) EXPECT_EQ(answers_[call], "MEMBER_LEFT");
}

TEST_F(RegistryTest, AfterARestartMembersTellOthersWhatTheyHeard) {
  Restart(5, {{kMain, {.epoch = 5, .size = 3, .formed = kBegin}}});
  ASSERT_TRUE(JoinAgain(1, 1, 0, 3, 5).ok());
  Returned knows = ReturnedOf(2, 1, 3, 5);
  knows.agreed_step = 7;
  knows.preempt.emplace().set_next_size(4);
  Actions actions;
  ASSERT_TRUE(registry_.JoinAgain(kMain, 2, knows, now_, actions).ok());
  Carry(std::move(actions));
  EXPECT_EQ(CountOf(told_[1], "preempt"), 1);
  ASSERT_TRUE(JoinAgain(3, 3, 2, 3, 5).ok());
  EXPECT_EQ(told_[3], "formed 5 as 2 of 0; preempt { next_size: 4 }; ");
  AgreeStep(10, 3, 5, /*epoch=*/5);
  EXPECT_EQ(answers_[10], "7 for 4") << "as the other member knows it";
}

TEST_F(RegistryTest, AStepThatNotAllNameEndsAtTheDeadlineOrWithTheWorld) {
  Form(2);
  AgreeStep(10, 1, 4);
  Pass(absl::Seconds(60));
  EXPECT_EQ(answers_[10], "BARRIER_TIMEOUT");
  AgreeStep(11, 1, 4);
  EndSession(2);
  Pass(kRejoinTime);
  EXPECT_EQ(answers_[11], "MEMBER_LOST");
}

// All processes of a machine that goes report it, each by itself.
TEST_F(RegistryTest, WhatManyReportIsToldOnce) {
  Form(3);
  EXPECT_EQ(Preempt(PreemptBy("SIGTERM to 0", 0, 100)), 3u);
  EXPECT_EQ(Preempt(PreemptBy("SIGTERM to 1", 0, 101)), 0u);
  EXPECT_EQ(Preempt(PreemptBy("SIGTERM to 2", 0, 0)), 0u);
  EXPECT_EQ(Preempt(PreemptBy("sooner", 0, 90)), 3u);
  EXPECT_EQ(Preempt(PreemptBy("ann", 2, 0)), 3u);
  const v1::World world = registry_.List("", "", 10).worlds[0];
  EXPECT_EQ(world.preempt().by(), "ann");
  EXPECT_EQ(world.preempt().next_size(), 2);
  EXPECT_EQ(world.preempt().deadline().seconds(), 90);
}

}  // namespace
}  // namespace remesh::server::coordination
