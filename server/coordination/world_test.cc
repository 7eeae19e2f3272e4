// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/world.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace remesh::server::coordination {
namespace {

const absl::Time kStart = absl::UnixEpoch();
const absl::Time kLater = kStart + absl::Seconds(300);

Member MemberOf(int rank) {
  return {.nonce = absl::StrCat("nonce ", rank), .host = absl::StrCat("host-", rank)};
}

// A world of three with sessions 0, 1, 2, and what its calls were answered.
class WorldTest : public testing::Test {
 protected:
  void Exchange(CallId call, int rank, uint64_t sequence, const std::string& name = "save",
                absl::Time deadline = kLater) {
    world_.Exchange(call, rank, MemberOf(rank).nonce, sequence, {.name = name}, deadline, kStart,
                    actions_);
  }

  // What the call was answered last: its ending, or its status; "" if nothing yet.
  std::string AnswerOf(CallId call) const {
    std::string text;
    for (const Action& action : actions_) {
      const auto* answer = std::get_if<Answer>(&action);
      if (answer == nullptr || answer->call != call) continue;
      const auto* outcome = std::get_if<SharedOutcome>(&answer->with);
      text = outcome != nullptr ? absl::StrCat(NameOf((*outcome)->ending), " ", (*outcome)->message)
                                : std::string(std::get<absl::Status>(answer->with).message());
    }
    return text;
  }

  World world_{{MemberOf(0), MemberOf(1), MemberOf(2)}, {0, 1, 2}};
  Actions actions_;
};

TEST_F(WorldTest, AnswersAllWhenTheLastCame) {
  Exchange(10, 0, 0);
  Exchange(11, 1, 0);
  EXPECT_EQ(AnswerOf(10), "");
  Exchange(12, 2, 0);
  for (CallId call : {10, 11, 12}) EXPECT_EQ(AnswerOf(call), "OK ");
}

TEST_F(WorldTest, ACallThatComesTwiceGetsTheSameOutcome) {
  Exchange(10, 0, 0);
  Exchange(20, 0, 0);
  EXPECT_EQ(AnswerOf(10), "the same call came again");
  Exchange(11, 1, 0);
  Exchange(12, 2, 0);
  EXPECT_EQ(AnswerOf(20), "OK ");
  Exchange(30, 0, 0);
  EXPECT_EQ(AnswerOf(30), "OK ");
}

TEST_F(WorldTest, RefusesAnotherContributionToTheSameRound) {
  Exchange(10, 0, 0, "save");
  Exchange(20, 0, 0, "restore");
  EXPECT_EQ(AnswerOf(20),
            "payload: value \"restore\" must be what the member contributed to this round before");
}

TEST_F(WorldTest, RefusesRoundsOutOfOrder) {
  Exchange(10, 0, 1);
  EXPECT_EQ(AnswerOf(10), "sequence: value \"1\" must be 0, or the round before");
}

TEST_F(WorldTest, RefusesTheNonceOfAnother) {
  world_.Exchange(10, 0, MemberOf(1).nonce, 0, {.name = "save"}, kLater, kStart, actions_);
  EXPECT_EQ(AnswerOf(10), "nonce: is not that of member 0");
  EXPECT_EQ(world_.JoinAgain(0, MemberOf(1), 7, {}, actions_).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(WorldTest, TheEarliestDeadlineHoldsForAllAndForLateOnes) {
  Exchange(10, 0, 0, "save", kLater);
  Exchange(11, 1, 0, "save", kStart + absl::Seconds(5));
  EXPECT_EQ(world_.NextTime(), kStart + absl::Seconds(5));
  world_.OnTime(kStart + absl::Seconds(5), actions_);
  const std::string late = "BARRIER_TIMEOUT save: not all members came in time; absent: 2@host-2";
  EXPECT_EQ(AnswerOf(10), late);
  EXPECT_EQ(AnswerOf(11), late);
  Exchange(12, 2, 0);
  EXPECT_EQ(AnswerOf(12), late);
  // The next round is as good as any.
  for (int rank = 0; rank < 3; ++rank) Exchange(20 + rank, rank, 1);
  EXPECT_EQ(AnswerOf(22), "OK ");
}

TEST_F(WorldTest, ALostMemberEndsTheWorldForAll) {
  Exchange(10, 0, 0);
  world_.OnSessionEnd(1, kStart);
  world_.OnTime(kStart + kRejoinTime - absl::Milliseconds(1), actions_);
  EXPECT_EQ(AnswerOf(10), "");
  world_.OnTime(kStart + kRejoinTime, actions_);
  const std::string lost = "MEMBER_LOST 1@host-1 is lost: its stream ended";
  EXPECT_EQ(AnswerOf(10), lost);
  Exchange(12, 2, 0);
  EXPECT_EQ(AnswerOf(12), lost);
  EXPECT_FALSE(world_.JoinAgain(1, MemberOf(1), 7, {}, actions_).ok());
}

TEST_F(WorldTest, AMemberThatJoinsAgainInTimeIsNotLost) {
  world_.OnSessionEnd(1, kStart);
  EXPECT_TRUE(world_.JoinAgain(1, MemberOf(1), 7, {}, actions_).ok());
  world_.OnTime(kLater, actions_);
  EXPECT_EQ(world_.over(), nullptr);
}

TEST_F(WorldTest, ASecondSessionOfAMemberEndsTheFirst) {
  EXPECT_TRUE(world_.JoinAgain(1, MemberOf(1), 7, {}, actions_).ok());
  ASSERT_EQ(actions_.size(), 1u);
  EXPECT_EQ(std::get<EndSession>(actions_[0]).session, 1u);
  // The end of the older stream comes late, and is not the member's end.
  world_.OnSessionEnd(1, kStart);
  EXPECT_EQ(world_.NextTime(), absl::InfiniteFuture());
}

TEST_F(WorldTest, RoundsWithoutOneThatLeftFailByItsName) {
  Exchange(11, 1, 0);
  world_.Leave(0, actions_);
  EXPECT_EQ(AnswerOf(11), "MEMBER_LEFT 0@host-0 has left");
  world_.OnSessionEnd(0, kStart);
  EXPECT_EQ(world_.NextTime(), absl::InfiniteFuture()) << "to leave is not to be lost";
  Exchange(12, 2, 0);
  EXPECT_EQ(AnswerOf(12), "MEMBER_LEFT 0@host-0 has left");
  Exchange(21, 1, 1);
  EXPECT_EQ(AnswerOf(21), "MEMBER_LEFT 0@host-0 has left");
}

TEST_F(WorldTest, IsOverWhenAllHaveLeft) {
  for (int rank = 0; rank < 3; ++rank) world_.Leave(rank, actions_);
  ASSERT_NE(world_.over(), nullptr);
  EXPECT_EQ(world_.over()->message, "all members have left");
}

TEST_F(WorldTest, ACallWhoseCallerWentAwayIsNotAnswered) {
  Exchange(10, 0, 0);
  world_.OnCallGone(10);
  Exchange(11, 1, 0);
  Exchange(12, 2, 0);
  EXPECT_EQ(AnswerOf(10), "");
  EXPECT_EQ(AnswerOf(11), "OK ");
}

TEST_F(WorldTest, KeepsFewRoundsOfALateMember) {
  for (uint64_t sequence = 0; sequence < kOpenRoundsMax; ++sequence) {
    Exchange(10, 0, sequence, "save", kStart);
    world_.OnTime(kStart, actions_);
  }
  Exchange(11, 0, kOpenRoundsMax);
  EXPECT_EQ(AnswerOf(11), "a member has not come to the last 1024 rounds");
}

TEST_F(WorldTest, AfterARestartNothingIsAnsweredBeforeAllAreBack) {
  world_ = World::Returning(3, kStart);
  ASSERT_TRUE(world_.JoinAgain(0, MemberOf(0), 0, {}, actions_).ok());
  ASSERT_TRUE(world_.JoinAgain(1, MemberOf(1), 1, {}, actions_).ok());
  Exchange(10, 0, 0, "save", kStart);
  world_.OnTime(kStart + absl::Seconds(1), actions_);
  EXPECT_EQ(AnswerOf(10), "");
  world_.OnTime(kStart + kReturnTime, actions_);
  EXPECT_EQ(AnswerOf(10), "MEMBER_LOST member 2 did not join again after the server's restart");
}

TEST_F(WorldTest, ARoundThatEndedWellForOneIsNeverLateForAnother) {
  world_ = World::Returning(3, kStart);
  const Finished finished = {
      .sequence = 0, .digest = DigestOf(Outcome()), .contribution = {.name = "save"}};
  ASSERT_TRUE(world_.JoinAgain(0, MemberOf(0), 0, {finished}, actions_).ok());
  ASSERT_TRUE(world_.JoinAgain(1, MemberOf(1), 1, {}, actions_).ok());
  ASSERT_TRUE(world_.JoinAgain(2, MemberOf(2), 2, {}, actions_).ok());
  Exchange(11, 1, 0);
  world_.OnTime(kLater, actions_);
  EXPECT_EQ(AnswerOf(11),
            "MEMBER_LOST 2@host-2 did not repeat its call \"save\" after the server's restart");
}

TEST_F(WorldTest, AMemberThatLeavesWhileItIsAwaitedAfterARestartHoldsUpNoOne) {
  world_ = World::Returning(2, kStart);
  ASSERT_TRUE(world_.JoinAgain(0, MemberOf(0), 0, {}, actions_).ok());
  world_.OnSessionEnd(0, kStart);
  ASSERT_TRUE(world_.JoinAgain(1, MemberOf(1), 1, {}, actions_).ok());
  Exchange(11, 1, 0);
  world_.Leave(0, actions_);
  EXPECT_FALSE(world_.returning());
  EXPECT_EQ(AnswerOf(11), "MEMBER_LEFT 0@host-0 has left");
}

TEST_F(WorldTest, AMemberThatHasLeftExchangesNoMore) {
  Exchange(10, 0, 0);
  Exchange(11, 1, 0);
  world_.Leave(0, actions_);
  Exchange(12, 2, 0);
  EXPECT_EQ(AnswerOf(12), "OK ") << "it had come to this round";
  Exchange(20, 0, 1);
  EXPECT_EQ(AnswerOf(20), "MEMBER_LEFT 0@host-0 has left");
  for (uint64_t sequence = 1; sequence < 4; ++sequence) {
    Exchange(31, 1, sequence);
    Exchange(32, 2, sequence);
  }
  Exchange(40, 0, 0);
  EXPECT_EQ(AnswerOf(40), "MEMBER_LEFT 0@host-0 has left") << "the round is forgotten";
}

// A member tells after a restart that round 0 ended so.
Finished FinishedWith(Outcome outcome, const std::string& digest = "") {
  return {.sequence = 0,
          .outcome = std::move(outcome),
          .digest = digest,
          .contribution = {.name = "save"}};
}

TEST_F(WorldTest, AMemberThatJoinsTwiceAfterARestartHasStillMadeItsCall) {
  world_ = World::Returning(2, kStart);
  const Finished finished = FinishedWith(Outcome(), DigestOf(Outcome()));
  ASSERT_TRUE(world_.JoinAgain(0, MemberOf(0), 0, {finished}, actions_).ok());
  Exchange(10, 0, 1);
  ASSERT_TRUE(world_.JoinAgain(0, MemberOf(0), 7, {finished}, actions_).ok());
  ASSERT_TRUE(world_.JoinAgain(1, MemberOf(1), 1, {finished}, actions_).ok());
  Exchange(11, 1, 1);
  EXPECT_EQ(AnswerOf(10), "OK ");
  Exchange(20, 0, 2);
  EXPECT_EQ(AnswerOf(20), "") << "it waits for the other";
}

TEST_F(WorldTest, MembersThatComeBackWithDifferentResultsEndTheWorld) {
  const Finished ok = FinishedWith(Outcome(), DigestOf(Outcome()));
  for (const Finished& other : {FinishedWith(Outcome(), "another digest  "),
                                FinishedWith(Failure(Ending::kTimeout, "late"))}) {
    for (const bool ok_first : {true, false}) {
      world_ = World::Returning(3, kStart);
      ASSERT_TRUE(world_.JoinAgain(0, MemberOf(0), 0, {ok_first ? ok : other}, actions_).ok());
      ASSERT_TRUE(world_.JoinAgain(1, MemberOf(1), 1, {ok_first ? other : ok}, actions_).ok());
      ASSERT_NE(world_.over(), nullptr);
      EXPECT_EQ(world_.over()->ending, Ending::kResultsDiffer);
    }
  }
}

TEST_F(WorldTest, AWorldThatWasOverForOneMemberBeforeTheRestartIsOverForAll) {
  world_ = World::Returning(3, kStart);
  const Finished lost = FinishedWith(Failure(Ending::kMemberLost, "2@host-2 is lost"));
  ASSERT_TRUE(world_.JoinAgain(0, MemberOf(0), 0, {lost}, actions_).ok());
  ASSERT_NE(world_.over(), nullptr);
  EXPECT_EQ(world_.over()->message, "2@host-2 is lost");
}

TEST_F(WorldTest, MembersThatComeBackCannotFillTheMemory) {
  world_ = World::Returning(3, kStart);
  std::vector<Finished> finished;
  for (uint64_t i = 0; i < kOpenRoundsMax; ++i) {
    finished.push_back(FinishedWith(Failure(Ending::kTimeout, "late")));
    finished.back().sequence = i;
  }
  ASSERT_TRUE(world_.JoinAgain(0, MemberOf(0), 0, finished, actions_).ok());
  for (Finished& each : finished) each.sequence += 10 * kOpenRoundsMax;
  ASSERT_TRUE(world_.JoinAgain(1, MemberOf(1), 1, finished, actions_).ok());
  for (Finished& each : finished) each.sequence += 10 * kOpenRoundsMax;
  EXPECT_EQ(world_.JoinAgain(2, MemberOf(2), 2, finished, actions_).message(),
            "finished: value \"20480\" must be rounds near those of the other members");

  world_ = World::Returning(3, kStart);
  world_.SetRoom(10);
  Finished large = FinishedWith(Outcome(), DigestOf(Outcome()));
  large.contribution.payload = absl::Cord("eight by");
  ASSERT_TRUE(world_.JoinAgain(0, MemberOf(0), 0, {large}, actions_).ok());
  EXPECT_EQ(world_.over(), nullptr);
  ASSERT_TRUE(world_.JoinAgain(1, MemberOf(1), 1, {large}, actions_).ok());
  ASSERT_NE(world_.over(), nullptr);
  EXPECT_EQ(world_.over()->message,
            "1@host-1 came back with more payloads than the server has room for");
  EXPECT_LE(world_.held(), 10u);
}

TEST_F(WorldTest, ARoundThatOneMemberHasTheOutcomeOfIsNotTooLargeForAnother) {
  world_ = World::Returning(2, kStart);
  const Finished finished = FinishedWith(Outcome(), DigestOf(Outcome()));
  ASSERT_TRUE(world_.JoinAgain(0, MemberOf(0), 0, {finished}, actions_).ok());
  ASSERT_TRUE(world_.JoinAgain(1, MemberOf(1), 1, {}, actions_).ok());
  world_.SetRoom(3);
  world_.Exchange(11, 1, MemberOf(1).nonce, 0, {.name = "save", .payload = absl::Cord("four")},
                  kLater, kStart, actions_);
  EXPECT_EQ(AnswerOf(11),
            "MEMBER_LOST 1@host-1 came back with more payloads than the server has room for");
}

}  // namespace
}  // namespace remesh::server::coordination
