// SPDX-License-Identifier: Apache-2.0
// What is kept of worlds, how much there may be, and how it is listed and counted.
#include "server/coordination/testing/registry_fixture.h"

namespace remesh::server::coordination {
namespace {

TEST_F(RegistryTest, WorldsWithoutMembersAreForgottenInAWeek) {
  Form(1);
  EndSession(1);
  Pass(kRejoinTime);
  EXPECT_EQ(registry_.List("", "", 10).worlds.size(), 1u);
  Pass(kForgetAfter - absl::Seconds(1));
  EXPECT_EQ(forgotten_, 0);
  Pass(absl::Seconds(1));
  EXPECT_EQ(forgotten_, 1);
  Exchange(10, 1, 1);
  EXPECT_EQ(answers_[10], "STALE_EPOCH");
  ASSERT_TRUE(Join(2, 1, 1, 0).ok());
  EXPECT_EQ(told_[2], "formed 2 as 0 of 1; ") << "an epoch is never given twice";
}

TEST_F(RegistryTest, TheOldestWorldWithoutMembersMakesRoom) {
  std::map<std::string, KnownEpoch> known;
  for (size_t i = 1; i <= kScopesMax; ++i) {
    known[absl::StrCat("jobs/b/worlds/", i)] = {
        .epoch = static_cast<int64_t>(i), .size = 1, .formed = kBegin + absl::Seconds(i % 7 + 1)};
  }
  known["jobs/b/worlds/9"].formed = kBegin;
  Restart(kScopesMax, known);
  ASSERT_TRUE(Join(1, 1, 1, 0).ok());
  EXPECT_EQ(forgotten_, 1);
  const std::vector<v1::World> rest = registry_.List("", "jobs/b/worlds/8999", 1).worlds;
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].name(), "jobs/b/worlds/90") << "9 is gone";
}

TEST_F(RegistryTest, ARoundThatNeedsMoreRoomThanThereIsEndsForAll) {
  constexpr int kMembers = 66;  // of 4 MiB each: more than 256 MiB
  Form(kMembers);
  const absl::Cord payload(std::string(size_t{4} << 20, 'x'));
  for (int process = 1; process <= kMembers; ++process) {
    Actions actions;
    registry_.Exchange(process, CallerOf(process, 1), 0,
                       {.name = "load", .mode = Mode::kGather, .payload = payload},
                       now_ + absl::Seconds(300), now_, actions);
    Carry(std::move(actions));
  }
  for (int process = 1; process <= kMembers; ++process) {
    EXPECT_EQ(answers_[process], "TOO_LARGE") << process;
  }
  for (int process = 1; process <= kMembers; ++process) Exchange(100 + process, process, 1, 1);
  EXPECT_EQ(answers_[100 + kMembers], "OK") << "the room is free again";
}

TEST_F(RegistryTest, TheEndOfAWorldIsTheAnswerOnceItsRoundsAreForgotten) {
  Form(2);
  Exchange(10, 1, 1);
  Exchange(11, 2, 1);
  EndSession(2);
  Pass(kRejoinTime);
  Exchange(12, 1, 1);
  EXPECT_EQ(answers_[12], "OK") << "asked again";
  Pass(kAskAgainTime);
  Exchange(13, 1, 1);
  EXPECT_EQ(answers_[13], "MEMBER_LOST");
}

TEST_F(RegistryTest, AWorldThatFormedLongAgoIsNotForgottenBeforeItsMembersAreBack) {
  Restart(5, {{kMain, {.epoch = 5, .size = 1, .formed = now_ - kForgetAfter}}});
  Pass(absl::Seconds(1));
  EXPECT_EQ(forgotten_, 0);
  ASSERT_TRUE(JoinAgain(1, 1, 0, 1, 5).ok());
  EXPECT_EQ(told_[1], "formed 5 as 0 of 0; ");
}

// All but one of a job's members wait with 4 MiB each, as much as there is for all jobs.
TEST_F(RegistryTest, RoundsOfOneJobLeaveRoomForThoseOfAnother) {
  const std::string other = "jobs/b/worlds/main";
  const absl::Cord payload(std::string(size_t{4} << 20, 'x'));
  const auto exchange = [&](const std::string& scope, int rank, const std::string& nonce,
                            int64_t epoch, CallId call) {
    Actions actions;
    registry_.Exchange(call, {.scope = scope, .epoch = epoch, .rank = rank, .nonce = nonce}, 0,
                       {.name = "load", .mode = Mode::kGather, .payload = payload},
                       now_ + absl::Seconds(300), now_, actions);
    Carry(std::move(actions));
  };
  Form(65);
  Candidate candidate = CandidateOf(900, 1);
  candidate.session = 900;
  Actions actions;
  ASSERT_TRUE(registry_.Join(other, "", candidate, now_, actions).ok());
  Carry(std::move(actions));
  ASSERT_EQ(told_[900], "formed 2 as 0 of 1; ");
  for (int rank = 0; rank < 64; ++rank) {
    exchange(kMain, rank, absl::StrCat("nonce ", rank + 1), 1, 1000 + rank);
  }
  exchange(other, 0, "nonce 900", 2, 2000);
  EXPECT_EQ(answers_[2000], "OK");
  EXPECT_EQ(answers_[1000], "TOO_LARGE") << "it may have half of the room";
}

TEST_F(RegistryTest, AJobWithManyWorldsForgetsItsOwn) {
  std::map<std::string, KnownEpoch> known;
  for (size_t i = 1; i <= kScopesMax / 2; ++i) {
    known[absl::StrCat("jobs/b/worlds/", i)] = {.epoch = static_cast<int64_t>(i + 1), .size = 1};
  }
  known["jobs/c/worlds/old"] = {.epoch = 1, .size = 1};
  Restart(kScopesMax, known);
  Candidate candidate = CandidateOf(1, 1);
  candidate.session = 1;
  Actions actions;
  ASSERT_TRUE(registry_.Join("jobs/b/worlds/new", "", candidate, now_, actions).ok());
  Carry(std::move(actions));
  EXPECT_EQ(forgotten_, 1);
  EXPECT_EQ(registry_.List("jobs/c/", "", 10).worlds.size(), 1u);
}

TEST_F(RegistryTest, ListsInPagesOfFewBytes) {
  for (int process = 1; process <= 600; ++process) {
    Candidate candidate = CandidateOf(process, 600, process - 1);
    candidate.process.data = std::string(4096, 'd');
    candidate.process.device_ids.assign(1024, int64_t{1} << 40);
    ASSERT_TRUE(Join(process, candidate).ok());
  }
  const Registry::Listed listed = registry_.List("jobs/a/", "", 10);
  EXPECT_FALSE(listed.more);
  ASSERT_EQ(listed.worlds.size(), 1u);
  EXPECT_EQ(listed.worlds[0].members_size(), 600);
  EXPECT_LT(listed.worlds[0].ByteSizeLong(), kWorldBytesMax) << "without data and device ids";
  EXPECT_TRUE(registry_.List("jobs/b/", "", 10).worlds.empty());
  EXPECT_TRUE(registry_.List("jobs/a/", kMain, 10).worlds.empty());
}

// Otherwise what is sent grows as the square of the members.
TEST_F(RegistryTest, MembersOfALargeWorldAreToldOfRankZeroAlone) {
  constexpr int kSize = 6000;
  Form(kSize);
  for (const int process : {1, kSize}) {
    EXPECT_EQ(told_[process], absl::StrCat("formed 1 as ", process - 1, " of 1; "));
    EXPECT_EQ(sizes_[process], kSize);
  }
}

TEST_F(RegistryTest, FiguresSayHowLongTheOldestRoundHasWaited) {
  Form(2);
  EXPECT_EQ(registry_.figures(now_).oldest_round, absl::ZeroDuration());
  Exchange(10, 1, 1);
  const WorldFigures figures = registry_.figures(now_ + absl::Seconds(7));
  EXPECT_EQ(figures.oldest_round, absl::Seconds(7));
  EXPECT_EQ(figures.members, 2);
  EXPECT_EQ(figures.worlds.at(v1::World::FORMED), 1);
}

// Regression: a round that one member had finished before the server's restart had waited forever,
// until the other called: the alert for rounds that wait fired at once.
TEST_F(RegistryTest, ARoundToWhichNoMemberHasComeSinceTheRestartIsNotOld) {
  Restart(5, {{kMain, {.epoch = 5, .size = 2, .formed = kBegin}}});
  Returned knows = ReturnedOf(1, 0, 2, 5);
  knows.finished.push_back({.digest = "digest", .contribution = {.name = "save"}});
  Actions actions;
  ASSERT_TRUE(registry_.JoinAgain(kMain, 1, knows, now_, actions).ok());
  ASSERT_TRUE(JoinAgain(2, 2, 1, 2, 5).ok());
  const v1::World world = registry_.List("", "", 1).worlds.at(0);
  ASSERT_EQ(world.waiting_size(), 1);
  EXPECT_FALSE(world.waiting(0).has_since()) << world.ShortDebugString();
  EXPECT_EQ(registry_.figures(now_).oldest_round, absl::ZeroDuration());
  Exchange(10, 2, 5);
  EXPECT_EQ(answers_[10], "RESULTS_DIFFER") << "the digest is none of this round";
}

}  // namespace
}  // namespace remesh::server::coordination
