// SPDX-License-Identifier: Apache-2.0
// How worlds form, whose ranks they are, and how their members come back.
#include "server/coordination/registry.h"

#include "server/coordination/testing/registry_fixture.h"

namespace remesh::server::coordination {
namespace {

TEST_F(RegistryTest, FormsAWorldWhenAllHaveCome) {
  ASSERT_TRUE(Join(1, 1, 2, 1).ok());
  EXPECT_EQ(told_[1], "");
  ASSERT_TRUE(Join(2, 2, 2, 0).ok());
  EXPECT_EQ(told_[1], "formed 1 as 1 of 2; ");
  EXPECT_EQ(told_[2], "formed 1 as 0 of 2; ");
}

TEST_F(RegistryTest, AssignsRanksByHostAndLocalIndex) {
  Candidate late = CandidateOf(1, 3);
  late.process.host = "b";
  Candidate first = CandidateOf(2, 3), second = CandidateOf(3, 3);
  first.process.host = second.process.host = "a";
  second.process.local_index = 1;
  ASSERT_TRUE(Join(1, late).ok());
  ASSERT_TRUE(Join(2, second).ok());
  ASSERT_TRUE(Join(3, first).ok());
  EXPECT_EQ(told_[3], "formed 1 as 0 of 3; ");
  EXPECT_EQ(told_[2], "formed 1 as 1 of 3; ");
  EXPECT_EQ(told_[1], "formed 1 as 2 of 3; ");
}

TEST_F(RegistryTest, FormsASmallerWorldOnlyAfterQuiet) {
  for (int i = 1; i <= 3; ++i) {
    Candidate candidate = CandidateOf(i, 4);
    candidate.min_size = 2;
    ASSERT_TRUE(Join(i, candidate).ok());
    Pass(kQuietTime - absl::Milliseconds(1));
    EXPECT_EQ(told_[1], "") << "after " << i;
  }
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(told_[1], "formed 1 as 0 of 3; ");
}

TEST_F(RegistryTest, AGapInTheRanksAskedForIsWaitedFor) {
  for (const int rank : {0, 1, 3}) {
    Candidate candidate = CandidateOf(rank + 1, 4, rank);
    candidate.min_size = 2;
    ASSERT_TRUE(Join(rank + 1, candidate).ok());
  }
  Pass(kQuietTime);
  EXPECT_EQ(told_[1], "");
  Candidate missing = CandidateOf(3, 4, 2);
  missing.min_size = 2;
  ASSERT_TRUE(Join(3, missing).ok());
  EXPECT_EQ(told_[4], "formed 1 as 3 of 4; ");
}

TEST_F(RegistryTest, SaysWhoCameWhenAWorldDoesNotForm) {
  ASSERT_TRUE(Join(1, 1, 2, 1).ok());
  Pass(absl::Seconds(300));
  EXPECT_EQ(ended_[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ended_[1].message(),
            "the world has not formed in time: 1 of 2 came: 1@host-1 (pid 101); "
            "absent: 0");
  EXPECT_EQ(GetErrorInfo(ended_[1]).metadata.at("absent"), "0");
}

TEST_F(RegistryTest, FormedIsSentOnlyOnceTheEpochIsOnDisk) {
  disk_stops_ = true;
  Form(2);
  EXPECT_EQ(told_[1], "");
  ASSERT_EQ(saved_.size(), 1u);
  EXPECT_EQ(saved_[0].epoch, 1);
  EXPECT_EQ(saved_[0].size, 2);
  Actions actions;
  registry_.OnSaved(kMain, absl::UnavailableError("disk"), now_, actions);
  Carry(std::move(actions));
  EXPECT_EQ(ended_[1].message(), "disk");
  EXPECT_EQ(registry_.sessions(), 0u);
}

TEST_F(RegistryTest, AMemberWhoseStreamEndsWhileTheEpochIsWrittenIsLostInTheWorld) {
  disk_stops_ = true;
  Form(2);
  EndSession(2);
  Actions actions;
  registry_.OnSaved(kMain, absl::OkStatus(), now_, actions);
  Carry(std::move(actions));
  EXPECT_EQ(told_[1], "formed 1 as 0 of 2; ");
  Pass(kRejoinTime);
  EXPECT_EQ(ended_.count(1), 1u);
}

TEST_F(RegistryTest, AJoinThatComesTwiceIsOneMember) {
  ASSERT_TRUE(Join(1, 1, 2, 0).ok());
  ASSERT_TRUE(Join(7, 1, 2, 0).ok());
  EXPECT_EQ(told_[1], "end JOINED_AGAIN");
  EXPECT_TRUE(absl::IsUnavailable(ended_[1])) << "it may be the newer one: the process tries again";
  ASSERT_TRUE(Join(2, 2, 2, 1).ok());
  EXPECT_EQ(told_[7], "formed 1 as 0 of 2; ");
  // Formed was lost with its stream: the process asks again.
  EndSession(7);
  ASSERT_TRUE(Join(8, 1, 2, 0).ok());
  EXPECT_EQ(told_[8], "formed 1 as 0 of 2; ");
}

// Regression: the server ended with an exception. The simulation found it, by seed 17959.
TEST_F(RegistryTest, AStreamMayEndAfterItsScopeIsGone) {
  ASSERT_TRUE(Join(1, 1, 2, 0).ok());
  ASSERT_TRUE(Join(2, 1, 2, 0).ok());
  EndSession(2);
  EXPECT_TRUE(registry_.List("", "", 1).worlds.empty());
  EndSession(1);
  EXPECT_EQ(registry_.sessions(), 0u);
}

TEST_F(RegistryTest, ALivingMemberIsNeverDisplaced) {
  Form(2);
  const absl::Status taken = Join(3, 3, 2, 0);
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(taken.message(), "rank 0 is taken by process 101 on host-1, which lives");
  EXPECT_EQ(GetErrorInfo(taken).metadata["pid"], "101");
  EXPECT_EQ(told_[1], "formed 1 as 0 of 2; ");
  Candidate same_place = CandidateOf(4, 2);
  same_place.process.host = "host-2";
  EXPECT_EQ(Join(4, same_place).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(RegistryTest, ANewProcessGetsTheRankInTheNextWorldOnceTheStreamHasEnded) {
  Form(2);
  EndSession(1);
  ASSERT_TRUE(Join(3, 3, 2, 0).ok());
  Pass(kRejoinTime);
  EXPECT_NE(told_[2].find("member_lost { host: \"host-1\""), std::string::npos) << told_[2];
  EXPECT_NE(told_[2].find("over {"), std::string::npos);
  EXPECT_TRUE(ended_.at(2).ok());
  ASSERT_TRUE(Join(9, 2, 2, 1).ok());
  EXPECT_EQ(told_[3], "formed 2 as 0 of 2; ");
}

TEST_F(RegistryTest, DifferentAttemptsNeverMeet) {
  ASSERT_TRUE(Join(1, CandidateOf(1, 2, 0), "first").ok());
  ASSERT_TRUE(Join(2, CandidateOf(2, 2, 1), "second").ok());
  EXPECT_EQ(saved_.size(), 0u);
  ASSERT_TRUE(Join(3, CandidateOf(3, 2, 0), "second").ok());
  EXPECT_EQ(told_[2], "formed 1 as 1 of 2; ");
  // The one that waits is told who has its rank.
  EXPECT_EQ(ended_.at(1).message(), "rank 0 is taken by process 103 on host-3, which lives");
}

TEST_F(RegistryTest, SizesMustBeTheSame) {
  ASSERT_TRUE(Join(1, 1, 2, 0).ok());
  EXPECT_EQ(Join(2, 2, 3, 1).message(),
            "min_size: value \"3\" must be 2, as on the members that wait");
  EXPECT_EQ(Join(3, 3, 2).message(),
            "rank: value \"-1\" must be asked for by all members, or by none");
  EXPECT_EQ(Join(4, 4, 2, 0).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(RegistryTest, TheEpochIsStaleOnceTheNextWorldHasFormed) {
  Form(2);
  EndSession(1);
  Pass(kRejoinTime);
  Exchange(10, 2, 1);
  EXPECT_EQ(answers_[10], "MEMBER_LOST") << "until then the end of the world is the answer";
  ASSERT_TRUE(Join(5, 1, 2, 0).ok());
  ASSERT_TRUE(Join(6, 2, 2, 1).ok());
  Exchange(11, 2, 1);
  EXPECT_EQ(answers_[11], "STALE_EPOCH");
  EXPECT_EQ(GetErrorInfo(JoinAgain(7, 2, 1, 2, 1)).metadata["epoch"], "2");
}

TEST_F(RegistryTest, AnUnknownScopeIsStale) {
  Exchange(10, 1, 1);
  EXPECT_EQ(answers_[10], "STALE_EPOCH");
  EXPECT_EQ(GetErrorInfo(JoinAgain(1, 1, 0, 2, 1)).reason, "STALE_EPOCH");
  EXPECT_TRUE(registry_.List("", "", 10).worlds.empty());
}

TEST_F(RegistryTest, AfterARestartMembersComeBackToTheirWorld) {
  Restart(5, {{kMain, {.epoch = 5, .size = 2, .formed = kBegin}}});
  Exchange(10, 1, 5);
  EXPECT_EQ(answers_[10], "JOIN_AGAIN");
  ASSERT_TRUE(JoinAgain(1, 1, 0, 2, 5).ok());
  Exchange(11, 1, 5);
  EXPECT_EQ(answers_.count(11), 0u);
  EXPECT_EQ(registry_.List("jobs/a/", "", 10).worlds[0].phase(), v1::World::RETURNING);
  ASSERT_TRUE(JoinAgain(2, 2, 1, 2, 5).ok());
  Exchange(12, 2, 5);
  EXPECT_EQ(answers_[11], "OK");
  EXPECT_EQ(answers_[12], "OK");
}

TEST_F(RegistryTest, NoOtherWorldFormsWhileMembersMayComeBack) {
  Restart(5, {{kMain, {.epoch = 5, .size = 1, .formed = kBegin}}});
  ASSERT_TRUE(Join(1, 1, 1, 0).ok());
  Pass(kReturnTime - absl::Milliseconds(1));
  EXPECT_EQ(told_[1], "");
  EXPECT_EQ(registry_.NextTime(), now_ + absl::Milliseconds(1));
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(told_[1], "formed 6 as 0 of 1; ");
}

// Regression: the last member that left was sent that its world is over, and its end once more, into
// the stream that had ended. tests/fuzz found it.
TEST_F(RegistryTest, OneThatHasLeftIsSentNothingMore) {
  Form(2);
  Leave(1);
  Leave(1);
  Preempt("an operator");
  Leave(2);
  EXPECT_EQ(told_[1], "formed 1 as 0 of 2; end OK");
  EXPECT_EQ(told_[2], "formed 1 as 1 of 2; preempt { by: \"an operator\" }; end OK");
}

// Regression: a member that left a world which was over had its session ended again. tests/fuzz
// found it.
TEST_F(RegistryTest, OneThatLeavesAWorldThatIsOverIsSentNothingMore) {
  Form(2);
  EndSession(2);
  Pass(kRejoinTime);
  const std::string told = told_[1];
  EXPECT_TRUE(told.ends_with("end OK")) << told;
  Leave(1);
  EXPECT_EQ(told_[1], told);
}

TEST_F(RegistryTest, LeavingIsNoLoss) {
  Form(2);
  Leave(1);
  EXPECT_TRUE(ended_.at(1).ok());
  EndSession(1);
  Pass(absl::Seconds(60));
  EXPECT_EQ(ended_.count(2), 0u);
  Exchange(10, 2, 1);
  EXPECT_EQ(answers_[10], "MEMBER_LEFT");
}

TEST_F(RegistryTest, AMemberOfALaterEpochShowsThatTheDiskWentBack) {
  Restart(5, {{kMain, {.epoch = 5, .size = 1, .formed = kBegin}}});
  EXPECT_EQ(GetErrorInfo(JoinAgain(1, 1, 0, 1, 9)).reason, "STALE_EPOCH");
  // One that is far off may be forged.
  EXPECT_EQ(GetErrorInfo(JoinAgain(1, 1, 0, 1, INT64_MAX)).reason, "STALE_EPOCH");
  Pass(kReturnTime);
  ASSERT_TRUE(Join(2, 2, 1, 0).ok());
  EXPECT_EQ(told_[2], "formed 10 as 0 of 1; ");
}

TEST_F(RegistryTest, AMemberThatComesBackTooLateIsToldSo) {
  Restart(5, {{kMain, {.epoch = 5, .size = 2, .formed = kBegin}}});
  ASSERT_TRUE(JoinAgain(1, 1, 0, 2, 5).ok());
  Pass(kReturnTime);
  Exchange(10, 2, 5);
  EXPECT_EQ(answers_[10], "MEMBER_LOST");
}

TEST_F(RegistryTest, TheRankOfOneThatHasLeftIsNotTaken) {
  Form(2);
  Leave(1);
  EXPECT_TRUE(Join(3, 3, 2, 0).ok()) << "it waits for the next world";
}

}  // namespace
}  // namespace remesh::server::coordination
