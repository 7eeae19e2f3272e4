// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/attempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "service/rpc/error_info.h"

namespace remesh::worker {

using service::StatusFromProto;

namespace {

using Phase = Attempt::Phase;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The names of actions; for Send, the name of its event.
std::vector<std::string> Names(const Attempt::Actions& actions) {
  std::vector<std::string> names;
  for (const Attempt::Action& action : actions) {
    static constexpr const char* kNames[] = {"reserve",   "fetch",         "open",       "grant",
                                             "check",     "mark-verified", "mark-ready", "look",
                                             "ask-waits", "stop",          "drop"};
    if (const auto* send = std::get_if<Attempt::Send>(&action)) {
      const auto* field =
          v1::AttachRequest::descriptor()->FindFieldByNumber(send->message.event_case());
      names.push_back(std::string("send ") + field->name());
    } else {
      names.push_back(kNames[action.index()]);
    }
  }
  return names;
}

absl::Status Broken() { return MakeError(absl::StatusCode::kDataLoss, "broken", {"BROKEN", {}}); }

class AttemptTest : public ::testing::Test {
 protected:
  AttemptTest() : attempt_(Prepare()) {}

  static v1::Prepare Prepare() {
    v1::Prepare prepare;
    prepare.mutable_attempt()->set_execution("jobs/a/executions/1");
    prepare.mutable_attempt()->set_attempt(1);
    prepare.set_windows(2);
    return prepare;
  }

  void ToTransferring() {
    attempt_.Start();
    attempt_.Reserved(absl::OkStatus());
    attempt_.ProgramFetched(absl::OkStatus());
    attempt_.Opened(absl::OkStatus());
  }
  void ToVerified() {
    ToTransferring();
    attempt_.Grant(2);
    attempt_.WindowDone({.window = 0});
    attempt_.WindowDone({.window = 1});
    attempt_.Verify();
    attempt_.SourcesChecked(absl::OkStatus());
    attempt_.MarkedVerified(absl::OkStatus());
  }

  Attempt attempt_;
};

TEST_F(AttemptTest, TheGoodLife) {
  EXPECT_THAT(Names(attempt_.Start()), ElementsAre("reserve"));
  EXPECT_THAT(Names(attempt_.Reserved(absl::OkStatus())), ElementsAre("fetch"));
  EXPECT_THAT(Names(attempt_.ProgramFetched(absl::OkStatus())), ElementsAre("open"));
  EXPECT_THAT(Names(attempt_.Opened(absl::OkStatus())), ElementsAre("send prepared"));
  EXPECT_THAT(Names(attempt_.Grant(1)), ElementsAre("grant"));
  EXPECT_THAT(Names(attempt_.Grant(1)), IsEmpty());
  EXPECT_THAT(Names(attempt_.WindowDone({.window = 0})), ElementsAre("send window_done"));
  EXPECT_THAT(Names(attempt_.Grant(2)), ElementsAre("grant"));
  attempt_.WindowDone({.window = 1});
  EXPECT_THAT(Names(attempt_.Verify()), ElementsAre("check"));
  EXPECT_THAT(Names(attempt_.Verify()), IsEmpty());
  EXPECT_THAT(Names(attempt_.SourcesChecked(absl::OkStatus())), ElementsAre("mark-verified"));
  EXPECT_THAT(Names(attempt_.MarkedVerified(absl::OkStatus())), ElementsAre("send verified"));
  EXPECT_THAT(Names(attempt_.Commit()), ElementsAre("mark-ready"));
  EXPECT_THAT(Names(attempt_.MarkedReady(absl::OkStatus())), ElementsAre("send committed", "stop"));
  EXPECT_THAT(Names(attempt_.Commit()), ElementsAre("send committed"));
  EXPECT_THAT(Names(attempt_.Stopped()), IsEmpty());
  EXPECT_TRUE(attempt_.over());
}

TEST_F(AttemptTest, AnAbortThatNamesAChunkLooksAtItFirst) {
  const absl::Status mismatch = MakeError(absl::StatusCode::kDataLoss, "spoiled",
                                          {"DIGEST_MISMATCH", {{"tape", "3"}, {"position", "70"}}});
  for (const absl::Status& found : {absl::OkStatus(), Broken()}) {
    Attempt attempt(Prepare());
    attempt.Start();
    const Attempt::Actions look = attempt.Abort(false, mismatch);
    ASSERT_THAT(Names(look), ElementsAre("look"));
    EXPECT_EQ(std::get<Attempt::LookAgain>(look[0]).chunk.tape, 3);
    EXPECT_EQ(std::get<Attempt::LookAgain>(look[0]).chunk.position, 70);
    EXPECT_THAT(Names(attempt.Abort(false, mismatch)), IsEmpty());
    EXPECT_THAT(Names(attempt.LookedAgain(found)), ElementsAre("stop"));
    const Attempt::Actions end = attempt.Stopped();
    const v1::Quiesced& quiesced = std::get<Attempt::Send>(end[1]).message.quiesced();
    EXPECT_EQ(quiesced.has_error(), !found.ok());
    EXPECT_EQ(GetErrorInfo(StatusFromProto(quiesced.error())).reason, GetErrorInfo(found).reason);
  }
}

TEST_F(AttemptTest, AnAbortAnywhereStopsThenDropsThenSaysQuiesced) {
  for (int steps = 0; steps < 6; ++steps) {
    Attempt attempt(Prepare());
    attempt.Start();
    if (steps > 0) attempt.Reserved(absl::OkStatus());
    if (steps > 1) attempt.ProgramFetched(absl::OkStatus());
    if (steps > 2) attempt.Opened(absl::OkStatus());
    if (steps > 3) attempt.WindowDone({.window = 1});
    if (steps > 4) attempt.Verify();
    EXPECT_THAT(Names(attempt.Abort()), ElementsAre("stop")) << steps;
    EXPECT_THAT(Names(attempt.Abort()), IsEmpty());
    // What was under way comes back late and changes nothing.
    EXPECT_THAT(Names(attempt.Reserved(absl::OkStatus())), IsEmpty());
    EXPECT_THAT(Names(attempt.ProgramFetched(Broken())), IsEmpty());
    EXPECT_THAT(Names(attempt.Opened(absl::OkStatus())), IsEmpty());
    EXPECT_THAT(Names(attempt.SourcesChecked(absl::OkStatus())), IsEmpty());
    EXPECT_THAT(Names(attempt.MovingFailed(Broken())), IsEmpty());
    EXPECT_THAT(Names(attempt.Stopped()), ElementsAre("drop", "send quiesced"));
    EXPECT_TRUE(attempt.over());
  }
}

TEST_F(AttemptTest, AFailureIsToldOnceAndAgainAfterReattaching) {
  attempt_.Start();
  const auto actions = attempt_.Reserved(Broken());
  ASSERT_THAT(Names(actions), ElementsAre("send failed"));
  const auto& failed = std::get<Attempt::Send>(actions[0]).message.failed();
  EXPECT_EQ(GetErrorInfo(StatusFromProto(failed.error())).reason, "BROKEN");
  EXPECT_THAT(Names(attempt_.Grant(2)), IsEmpty());
  EXPECT_THAT(Names(attempt_.Verify()), IsEmpty());
  EXPECT_THAT(Names(attempt_.Reattached()), ElementsAre("send failed"));
  EXPECT_THAT(Names(attempt_.Abort()), ElementsAre("stop"));
}

TEST_F(AttemptTest, CommandsOutOfOrderFailTheAttempt) {
  ToTransferring();
  attempt_.WindowDone({.window = 0});
  const auto actions = attempt_.Verify();
  ASSERT_THAT(Names(actions), ElementsAre("send failed"));
  EXPECT_EQ(
      GetErrorInfo(StatusFromProto(std::get<Attempt::Send>(actions[0]).message.failed().error()))
          .reason,
      "COMMAND_OUT_OF_ORDER");
  Attempt early(Prepare());
  early.Start();
  EXPECT_THAT(Names(early.Commit()), ElementsAre("send failed"));
}

TEST_F(AttemptTest, NothingUndoesACommit) {
  ToVerified();
  attempt_.Commit();
  attempt_.MarkedReady(absl::OkStatus());
  EXPECT_THAT(Names(attempt_.Abort()), ElementsAre("send committed"));
  EXPECT_EQ(attempt_.phase(), Phase::kCommitted);
  EXPECT_THAT(Names(attempt_.MovingFailed(Broken())), IsEmpty());
}

TEST_F(AttemptTest, AnAbortBetweenCommitAndItsRecordIsRefused) {
  ToVerified();
  EXPECT_THAT(Names(attempt_.Commit()), ElementsAre("mark-ready"));
  EXPECT_THAT(Names(attempt_.Abort()), IsEmpty());
  EXPECT_THAT(Names(attempt_.Commit()), IsEmpty());
  EXPECT_THAT(Names(attempt_.MarkedReady(absl::OkStatus())), ElementsAre("send committed", "stop"));
}

TEST_F(AttemptTest, AStallIsAnsweredWithWhatThisHostWaitsFor) {
  ToTransferring();
  const auto stalled = [](const char* host) {
    return MakeError(absl::StatusCode::kUnavailable, "stalls",
                     {"LINK_STALLED", {{"receives_from", host}, {"sends_to", ""}}});
  };
  EXPECT_THAT(Names(attempt_.Abort(/*even_committed=*/false, stalled("a"))),
              ElementsAre("ask-waits"));
  EXPECT_THAT(Names(attempt_.LookedAgain(stalled("b"))), ElementsAre("stop"));
  const Attempt::Actions actions = attempt_.Stopped();
  ASSERT_THAT(Names(actions), ElementsAre("drop", "send quiesced"));
  EXPECT_EQ(
      service::StatusFromProto(std::get<Attempt::Send>(actions[1]).message.quiesced().error()),
      stalled("b"));
}

TEST_F(AttemptTest, ADecisionTakenBackUndoesACommit) {
  ToVerified();
  attempt_.Commit();
  EXPECT_THAT(Names(attempt_.Abort(/*even_committed=*/true)), IsEmpty());
  EXPECT_THAT(Names(attempt_.MarkedReady(absl::OkStatus())), ElementsAre("stop"));
  EXPECT_THAT(Names(attempt_.Stopped()), ElementsAre("drop", "send quiesced"));
}

TEST_F(AttemptTest, ADecisionTakenBackUndoesACommitThatWasSaid) {
  ToVerified();
  attempt_.Commit();
  attempt_.MarkedReady(absl::OkStatus());
  EXPECT_THAT(Names(attempt_.Abort(/*even_committed=*/true)), IsEmpty());  // it stops already
  const Attempt::Actions actions = attempt_.Stopped();
  ASSERT_THAT(Names(actions), ElementsAre("drop", "send quiesced"));
  EXPECT_TRUE(std::get<Attempt::DropTarget>(actions[0]).even_committed);
}

TEST_F(AttemptTest, WhatThePlannerMissedIsSaidAgain) {
  ToTransferring();
  EXPECT_THAT(Names(attempt_.Reattached()), ElementsAre("send prepared"));
  attempt_.WindowDone({.window = 0});
  EXPECT_THAT(Names(attempt_.Reattached()), ElementsAre("send prepared", "send window_done"));
  attempt_.WindowDone({.window = 1});
  attempt_.Verify();
  attempt_.SourcesChecked(absl::OkStatus());
  attempt_.MarkedVerified(absl::OkStatus());
  EXPECT_THAT(Names(attempt_.Reattached()), ElementsAre("send verified"));
}

}  // namespace
}  // namespace remesh::worker
