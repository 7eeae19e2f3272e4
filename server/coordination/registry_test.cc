// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/registry.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "gtest/gtest.h"

namespace remesh::server::coordination {
namespace {

constexpr char kMain[] = "jobs/a/worlds/main";
const absl::Time kBegin = absl::UnixEpoch() + absl::Hours(1);

// A registry with a journal that writes at once, and what each session and call was told.
class RegistryTest : public testing::Test {
 protected:
  static v1::WorldEvent::Preempt PreemptBy(const std::string& who, int next_size, int64_t seconds) {
    v1::WorldEvent::Preempt preempt;
    preempt.set_by(who);
    preempt.set_next_size(next_size);
    if (seconds != 0) preempt.mutable_deadline()->set_seconds(seconds);
    return preempt;
  }
  // How many events it took.
  size_t Preempt(const v1::WorldEvent::Preempt& preempt) {
    Actions actions;
    EXPECT_TRUE(registry_.Preempt(kMain, 0, preempt, now_, actions).ok());
    return actions.size();
  }
  static Candidate CandidateOf(int process, int size, int rank = -1) {
    Candidate candidate;
    candidate.process.nonce = absl::StrCat("nonce ", process);
    candidate.process.host = absl::StrCat("host-", process);
    candidate.process.pid = 100 + process;
    candidate.min_size = candidate.max_size = size;
    candidate.rank = rank;
    candidate.deadline = kBegin + absl::Seconds(300);
    return candidate;
  }

  absl::Status Join(SessionId session, Candidate candidate, const std::string& attempt = "") {
    candidate.session = session;
    Actions actions;
    const absl::Status status = registry_.Join(kMain, attempt, candidate, now_, actions);
    Carry(std::move(actions));
    return status;
  }
  absl::Status Join(SessionId session, int process, int size, int rank = -1) {
    return Join(session, CandidateOf(process, size, rank));
  }
  // A world of processes and sessions 1 ... size.
  void Form(int size) {
    for (int i = 1; i <= size; ++i) ASSERT_TRUE(Join(i, i, size, i - 1).ok());
  }
  static Returned ReturnedOf(int process, int rank, int size, int64_t epoch) {
    Returned returned;
    returned.process = CandidateOf(process, size).process;
    returned.epoch = epoch;
    returned.rank = rank;
    returned.size = size;
    return returned;
  }
  absl::Status JoinAgain(SessionId session, int process, int rank, int size, int64_t epoch) {
    const Returned returned = ReturnedOf(process, rank, size, epoch);
    Actions actions;
    const absl::Status status = registry_.JoinAgain(kMain, session, returned, now_, actions);
    Carry(std::move(actions));
    return status;
  }
  void EndSession(SessionId session) {
    Actions actions;
    registry_.OnSessionEnd(session, now_, actions);
    Carry(std::move(actions));
  }
  void Exchange(CallId call, int process, int64_t epoch, uint64_t sequence = 0) {
    Actions actions;
    registry_.Exchange(call, CallerOf(process, epoch), sequence, {.name = "save"},
                       now_ + absl::Seconds(300), now_, actions);
    Carry(std::move(actions));
  }
  void AgreeStep(CallId call, int process, int64_t step, int64_t epoch = 1) {
    Actions actions;
    registry_.AgreeStep(call, CallerOf(process, epoch), step, now_ + absl::Seconds(60), now_,
                        actions);
    Carry(std::move(actions));
  }
  std::string Preempt(const std::string& by, int next_size = 0, int64_t epoch = 0) {
    v1::WorldEvent::Preempt preempt;
    preempt.set_by(by);
    preempt.set_next_size(next_size);
    Actions actions;
    const absl::Status status = registry_.Preempt(kMain, epoch, preempt, now_, actions);
    Carry(std::move(actions));
    return status.ok() ? "OK" : GetErrorInfo(status).reason;
  }
  static int CountOf(const std::string& text, const std::string& word) {
    const std::vector<std::string> parts = absl::StrSplit(text, word);
    return static_cast<int>(parts.size()) - 1;
  }
  // Member of a world that Form() made.
  static Caller CallerOf(int process, int64_t epoch) {
    return {.scope = kMain,
            .epoch = epoch,
            .rank = process - 1,
            .nonce = absl::StrCat("nonce ", process)};
  }
  void Pass(absl::Duration time) {
    now_ += time;
    Actions actions;
    registry_.OnTime(now_, actions);
    Carry(std::move(actions));
  }

  void Carry(Actions actions) {
    for (Action& action : actions) {
      if (auto* save = std::get_if<SaveEpoch>(&action)) {
        saved_.push_back(*save);
        if (disk_stops_) continue;
        Actions more;
        registry_.OnSaved(save->scope, absl::OkStatus(), now_, more);
        Carry(std::move(more));
      } else if (auto* formed = std::get_if<SendFormed>(&action)) {
        told_[formed->session] +=
            absl::StrCat("formed ", formed->world->epoch, " as ", formed->rank, " of ",
                         formed->world->members.size(), "; ");
        sizes_[formed->session] = formed->world->size;
      } else if (auto* send = std::get_if<Send>(&action)) {
        told_[send->session] += send->event.ShortDebugString() + "; ";
      } else if (auto* end = std::get_if<coordination::EndSession>(&action)) {
        told_[end->session] += absl::StrCat("end ", GetErrorInfo(end->status).reason);
        ended_[end->session] = end->status;
      } else if (auto* answer = std::get_if<Answer>(&action)) {
        const auto* outcome = std::get_if<SharedOutcome>(&answer->with);
        answers_[answer->call] = outcome != nullptr
                                     ? NameOf((*outcome)->ending)
                                     : GetErrorInfo(std::get<absl::Status>(answer->with)).reason;
      } else if (auto* step = std::get_if<AnswerStep>(&action)) {
        answers_[step->call] = step->agreed.ok() ? absl::StrCat(step->agreed->step, " for ",
                                                                step->agreed->preempt.next_size())
                                                 : GetErrorInfo(step->agreed.status()).reason;
      } else if (std::holds_alternative<ForgetScope>(action)) {
        ++forgotten_;
      }
    }
  }
  void Restart(int64_t last_epoch, std::map<std::string, KnownEpoch> known) {
    registry_ = Registry(last_epoch, known, now_);
    told_.clear();
    answers_.clear();
  }

  absl::Time now_ = kBegin;
  Registry registry_{0, {}, kBegin - absl::Hours(1)};
  bool disk_stops_ = false;
  std::vector<SaveEpoch> saved_;
  std::map<SessionId, std::string> told_;
  std::map<SessionId, int> sizes_;  // of the worlds that they were told of
  std::map<SessionId, absl::Status> ended_;
  std::map<CallId, std::string> answers_;
  int forgotten_ = 0;
};

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

TEST_F(RegistryTest, LeavingIsNoLoss) {
  Form(2);
  Actions actions;
  ASSERT_TRUE(registry_.Leave(CallerOf(1, 1), now_, actions).ok());
  Carry(std::move(actions));
  EXPECT_TRUE(ended_.at(1).ok());
  EndSession(1);
  Pass(absl::Seconds(60));
  EXPECT_EQ(ended_.count(2), 0u);
  Exchange(10, 2, 1);
  EXPECT_EQ(answers_[10], "MEMBER_LEFT");
}

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

TEST_F(RegistryTest, NoStepIsAgreedOnOnceAMemberHasLeft) {
  Form(3);
  EXPECT_EQ(Preempt("SIGTERM"), "OK");
  AgreeStep(10, 1, 4);
  Actions actions;
  ASSERT_TRUE(registry_.Leave(CallerOf(2, 1), now_, actions).ok());
  Carry(std::move(actions));
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

TEST_F(RegistryTest, AWorldThatFormedLongAgoIsNotForgottenBeforeItsMembersAreBack) {
  Restart(5, {{kMain, {.epoch = 5, .size = 1, .formed = now_ - kForgetAfter}}});
  Pass(absl::Seconds(1));
  EXPECT_EQ(forgotten_, 0);
  ASSERT_TRUE(JoinAgain(1, 1, 0, 1, 5).ok());
  EXPECT_EQ(told_[1], "formed 5 as 0 of 0; ");
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
  Actions actions;
  ASSERT_TRUE(registry_.Leave(CallerOf(1, 1), now_, actions).ok());
  EXPECT_TRUE(Join(3, 3, 2, 0).ok()) << "it waits for the next world";
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
