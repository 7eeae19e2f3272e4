// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "google/rpc/error_details.pb.h"
#include "server/controller/testing/execution_test_world.h"

namespace remesh::server {
namespace {

// Regression: an error as long as a gRPC message went into the journal, the log and every answer.
TEST_F(ExecutionTest, AnErrorOfAWorkerIsKeptShort) {
  google::rpc::Status error;
  error.set_code(static_cast<int>(absl::StatusCode::kInternal));
  error.set_message(std::string(1 << 20, 'x'));
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(1 << 20, 'y'));
  (*info.mutable_metadata())["key"] = std::string(1 << 20, 'z');
  error.add_details()->PackFrom(info);
  Start();
  execution_.OnAttemptFailed("a", error, now_, out_);
  EXPECT_EQ(execution_.resource().error().message().rfind("host a: xxx", 0), 0u);
  EXPECT_LT(execution_.resource().error().ByteSizeLong(), 8192u);
}

TEST_F(ExecutionTest, SucceedsStepByStep) {
  Start();
  EXPECT_EQ(Taken(), "a:prepare b:prepare c:prepare");
  execution_.OnPrepared("a", now_, out_);
  execution_.OnPrepared("b", now_, out_);
  EXPECT_EQ(Taken(), "");
  execution_.OnPrepared("c", now_, out_);
  EXPECT_EQ(Taken(), "a:grant b:grant c:grant");
  AllTransferred();
  EXPECT_EQ(Taken(),
            "a:grant b:grant c:grant a:grant b:grant c:grant a:grant b:grant c:grant a:verify "
            "b:verify c:verify");
  AllVerified();
  EXPECT_EQ(Taken(), "save-decision");
  EXPECT_EQ(execution_.resource().phase(), v1::Execution::VERIFYING);
  execution_.OnSaved(Save::kDecision, now_, out_);
  EXPECT_EQ(Taken(), "a:commit b:commit c:commit");
  for (const char* host : kHosts) execution_.OnCommitted(host, out_);
  EXPECT_EQ(Taken(), "save-success");
  execution_.OnSaved(Save::kSuccess, now_, out_);
  EXPECT_EQ(Taken(), "");
  EXPECT_TRUE(execution_.ended());
  EXPECT_EQ(execution_.resource().phase(), v1::Execution::SUCCEEDED);
}

// What all hosts have done is not counted again at each answer, so no order may confuse it.
TEST_F(ExecutionTest, AnswersCountInAnyOrder) {
  std::array<const char*, 3> order = {"a", "b", "c"};
  do {
    execution_ = Execution(Spec(), Resource());
    Start();
    for (const char* host : order) {
      EXPECT_EQ(execution_.step(), Step::kPreparing);
      execution_.OnPrepared(host, now_, out_);
    }
    auto rotated = order;
    for (int window = 0; window < 5; ++window) {
      for (const char* host : rotated) {
        EXPECT_EQ(execution_.step(), Step::kTransferring) << window;
        Done(host, window);
      }
      std::rotate(rotated.begin(), rotated.begin() + 1, rotated.end());
    }
    for (const char* host : order) {
      EXPECT_EQ(execution_.step(), Step::kVerifying);
      execution_.OnVerified(host, now_, out_);
    }
    execution_.OnSaved(Save::kDecision, now_, out_);
    execution_.OnCommitted(order[0], out_);
    execution_.OnHostAway(order[0], absl::UnavailableError("away"), now_, out_);
    execution_.OnHostReturned(order[0], /*holds_target=*/true, out_);
    for (const char* host : {order[1], order[2]}) execution_.OnCommitted(host, out_);
    if (*order[0] == 'c') continue;  // it receives nothing, so it had nothing to commit again
    EXPECT_EQ(execution_.step(), Step::kCommitting) << "it must acknowledge again";
    execution_.OnCommitted(order[0], out_);
    EXPECT_EQ(execution_.step(), Step::kFinishing);
  } while (std::next_permutation(order.begin(), order.end(),
                                 [](const char* a, const char* b) { return *a < *b; }));
}

TEST_F(ExecutionTest, GrantsRunAheadOfTheSlowestHost) {
  Start();
  AllPrepared();
  EXPECT_EQ(std::get<SendCommand>(out_.back()).message.grant().until(), 2);
  Taken();
  Done("a", 0);
  Done("a", 1);
  Done("b", 0);
  EXPECT_EQ(Taken(), "");
  Done("a", 4);  // never granted
  EXPECT_EQ(execution_.resource().hosts(0).windows_done(), 2);
  Done("c", 0);
  EXPECT_EQ(std::get<SendCommand>(out_.back()).message.grant().until(), 3);
}

TEST_F(ExecutionTest, APlanWithoutWindowsGoesStraightToVerifying) {
  execution_ = Execution(Spec(), Resource(0));
  Start();
  Taken();
  AllPrepared();
  EXPECT_EQ(Taken(), "a:verify b:verify c:verify");
}

TEST_F(ExecutionTest, AFailedCommitIsShownAndRepeatedUntilItWorks) {
  UntilCommitting();
  execution_.OnCommitted("b", out_);
  execution_.OnCommitted("c", out_);
  Taken();
  google::rpc::Status error;
  error.set_code(13);
  error.set_message("the disk is full");
  execution_.OnAttemptFailed("a", error, now_, out_);
  EXPECT_EQ(execution_.resource().phase(), v1::Execution::COMMITTING);
  EXPECT_EQ(execution_.resource().error().message(), "host a: the disk is full");
  execution_.OnTick(now_, out_);
  EXPECT_EQ(Taken(), "");
  now_.steady += seconds(1);
  execution_.OnTick(now_, out_);
  EXPECT_EQ(Taken(), "a:commit");
  execution_.OnAttemptFailed("a", error, now_, out_);
  now_.steady += seconds(1);  // longer than before
  execution_.OnTick(now_, out_);
  EXPECT_EQ(Taken(), "");
  now_.steady += seconds(30);
  execution_.OnTick(now_, out_);
  EXPECT_EQ(Taken(), "a:commit");
  execution_.OnCommitted("a", out_);
  EXPECT_EQ(Taken(), "save-success");
  execution_.OnSaved(Save::kSuccess, now_, out_);
  EXPECT_EQ(execution_.resource().phase(), v1::Execution::SUCCEEDED);
  EXPECT_FALSE(execution_.resource().has_error());
}

TEST_F(ExecutionTest, AFailureAbortsAllAndWaitsUntilTheyAreQuiet) {
  Start();
  AllPrepared();
  Taken();
  google::rpc::Status error;
  error.set_code(9);
  error.set_message("the source was modified");
  execution_.OnAttemptFailed("b", error, now_, out_);
  EXPECT_EQ(Taken(), "a:abort b:abort c:abort");
  EXPECT_EQ(execution_.resource().phase(), v1::Execution::TRANSFERRING);
  execution_.OnQuiesced("a", {}, now_, out_);
  execution_.OnHostAway("c", lost_, now_, out_);
  EXPECT_EQ(Taken(), "");
  execution_.OnQuiesced("b", {}, now_, out_);
  EXPECT_EQ(Taken(), "save-failure");
  execution_.OnSaved(Save::kFailure, now_, out_);
  EXPECT_EQ(execution_.resource().phase(), v1::Execution::FAILED);
  EXPECT_EQ(execution_.resource().error().message(), "host b: the source was modified");
  execution_.OnHostReturned("c", false, out_);  // it still thinks the attempt runs
  EXPECT_EQ(Taken(), "c:abort");
}

// A chunk that arrived at b differs from what c sent: c checks whether its memory still has what it
// read.
TEST_F(ExecutionTest, TheOriginSaysWhetherASourceOrALinkSpoiledAChunk) {
  google::rpc::Status mismatch = service::StatusToProto(MakeError(
      absl::StatusCode::kDataLoss, "bytes arrived that are not the origin's",
      {"DIGEST_MISMATCH", {{"host", "c"}, {"receiver", "b"}, {"tape", "3"}, {"position", "0"}}}));
  const google::rpc::Status modified = service::StatusToProto(
      MakeError(absl::StatusCode::kAborted, "written in between", {"SOURCE_MODIFIED", {}}));
  for (const google::rpc::Status& found : {google::rpc::Status(), modified}) {
    execution_ = Execution(Spec(), Resource());
    Start();
    AllPrepared();
    out_.clear();
    execution_.OnAttemptFailed("b", mismatch, now_, out_);
    for (const ExecutionAction& action : out_) {
      const v1::Abort& abort = std::get<SendCommand>(action).message.abort();
      EXPECT_EQ(GetErrorInfo(service::StatusFromProto(abort.error())).metadata["tape"], "3");
    }
    execution_.OnQuiesced("c", found, now_, out_);
    EXPECT_EQ(Reason(), found.code() == 0 ? "DIGEST_MISMATCH" : "SOURCE_MODIFIED");
    EXPECT_EQ(execution_.resource().error().message().substr(0, 7),
              found.code() == 0 ? "host b:" : "host c:");
  }
  // Any other failure stays the reason.
  execution_ = Execution(Spec(), Resource());
  Start();
  out_.clear();
  execution_.OnHostAway("b", lost_, now_, out_);
  EXPECT_FALSE(std::get<SendCommand>(out_[0]).message.abort().has_error());
  execution_.OnQuiesced("c", modified, now_, out_);
  EXPECT_EQ(Reason(), "WORKER_LOST");
}

TEST_F(ExecutionTest, ALostHostFailsEveryStepBeforeTheDecision) {
  for (const Step step : {Step::kQueued, Step::kPreparing, Step::kTransferring, Step::kVerifying}) {
    execution_ = Execution(Spec(), Resource());
    if (step >= Step::kPreparing) Start();
    if (step >= Step::kTransferring) AllPrepared();
    if (step >= Step::kVerifying) AllTransferred();
    Taken();
    ASSERT_EQ(execution_.step(), step);
    execution_.OnHostAway("b", lost_, now_, out_);
    EXPECT_EQ(Taken(), step == Step::kQueued ? "save-failure" : "a:abort c:abort");
    EXPECT_EQ(Reason(), "WORKER_LOST");
  }
}

TEST_F(ExecutionTest, NothingUndoesTheDecision) {
  Start();
  AllPrepared();
  AllTransferred();
  AllVerified();
  Taken();
  execution_.OnHostAway("b", lost_, now_, out_);
  EXPECT_EQ(GetErrorInfo(execution_.Cancel(now_, out_)).reason, "EXECUTION_COMMITTING");
  now_.steady = seconds(1000);
  execution_.OnTick(now_, out_);
  execution_.OnAttemptFailed("a", {}, now_, out_);
  EXPECT_EQ(Taken(), "");
  execution_.OnSaved(Save::kDecision, now_, out_);
  EXPECT_EQ(Taken(), "a:commit c:commit");
  execution_.OnCommitted("a", out_);
  execution_.OnCommitted("c", out_);
  EXPECT_EQ(Taken(), "");
  execution_.OnHostReturned("b", true, out_);
  EXPECT_EQ(Taken(), "b:commit");
  execution_.OnCommitted("b", out_);
  EXPECT_EQ(Taken(), "save-success");
}

TEST_F(ExecutionTest, WhoOnlyGaveHoldsUpNoCommit) {
  UntilCommitting();
  execution_.OnCommitted("a", out_);
  execution_.OnCommitted("b", out_);
  Taken();
  execution_.OnHostAway("c", lost_, now_, out_);
  EXPECT_EQ(Taken(), "save-success");
}

// Nothing else would end the host's attempt: while the success is being written, the phase is
// COMMITTING.
TEST_F(ExecutionTest, AGiverBackWhileTheSuccessIsWrittenIsToldThatItIsOver) {
  UntilCommitting();
  execution_.OnCommitted("a", out_);
  execution_.OnCommitted("b", out_);
  execution_.OnHostAway("c", lost_, now_, out_);
  ASSERT_EQ(execution_.step(), Step::kFinishing);
  Taken();
  execution_.OnHostReturned("c", false, out_);
  EXPECT_EQ(Taken(), "c:commit");
  execution_.OnSaved(Save::kSuccess, now_, out_);
  EXPECT_EQ(execution_.resource().phase(), v1::Execution::SUCCEEDED);
}

// The host's stream may have ended before Commit arrived.
TEST_F(ExecutionTest, AGiverIsToldOfTheCommitEachTimeThatItComesBack) {
  UntilCommitting();
  for (int time = 0; time < 2; ++time) {
    execution_.OnHostAway("c", lost_, now_, out_);
    Taken();
    execution_.OnHostReturned("c", false, out_);
    EXPECT_EQ(Taken(), "c:commit");  // was told once
  }
  execution_.OnCommitted("a", out_);
  execution_.OnCommitted("b", out_);
  EXPECT_EQ(Taken(), "save-success");
}

// Either the host holds its part, or the state is LOST; the success stands in both cases.
TEST_F(ExecutionTest, AReceiverBackWhileTheSuccessIsWrittenDelaysNothing) {
  UntilCommitting();
  for (const char* host : kHosts) execution_.OnCommitted(host, out_);
  execution_.OnHostAway("a", lost_, now_, out_);
  Taken();
  execution_.OnHostReturned("a", false, out_);
  EXPECT_EQ(Taken(), "");
  EXPECT_FALSE(execution_.resource().has_error());
}

TEST_F(ExecutionTest, AHostBackWithoutItsShardsKeepsTheExecutionCommittingAndSaysWhy) {
  UntilCommitting();
  execution_.OnHostAway("b", lost_, now_, out_);
  Taken();
  execution_.OnHostReturned("b", false, out_);
  EXPECT_EQ(Taken(), "");
  EXPECT_EQ(execution_.step(), Step::kCommitting);
  EXPECT_EQ(Reason(), "COMMIT_INCOMPLETE");
}

// Regression: it was neither away nor incomplete afterwards, and answered each Commit with
// NOT_VERIFIED, so that the state could be neither resolved nor deleted.
TEST_F(ExecutionTest, AReceiverWipedWhileTheDecisionIsWrittenLeavesItIncomplete) {
  for (const bool returns_first : {true, false}) {
    execution_ = Execution(Spec(), Resource());
    UntilDeciding();
    execution_.OnHostAway("b", lost_, now_, out_);
    Taken();
    if (returns_first) execution_.OnHostReturned("b", false, out_);
    EXPECT_EQ(Taken(), "");
    execution_.OnSaved(Save::kDecision, now_, out_);
    EXPECT_EQ(Taken(), "a:commit c:commit");
    if (!returns_first) execution_.OnHostReturned("b", false, out_);
    EXPECT_EQ(Taken(), "");
    EXPECT_EQ(Reason(), "COMMIT_INCOMPLETE") << returns_first;
    EXPECT_TRUE(execution_.incomplete()) << returns_first;
    execution_.OnCommitted("a", out_);
    execution_.OnCommitted("c", out_);
    EXPECT_EQ(Taken(), "");
    execution_.GiveUp(lost_);
    execution_.OnSaved(Save::kFailure, now_, out_);
    EXPECT_EQ(execution_.resource().phase(), v1::Execution::FAILED) << returns_first;
  }
}

TEST_F(ExecutionTest, AReceiverBackWithItsShardsWhileTheDecisionIsWrittenCommits) {
  UntilDeciding();
  execution_.OnHostAway("b", lost_, now_, out_);
  Taken();
  execution_.OnHostReturned("b", true, out_);
  EXPECT_EQ(Taken(), "");
  execution_.OnSaved(Save::kDecision, now_, out_);
  EXPECT_EQ(Taken(), "a:commit b:commit c:commit");
  EXPECT_FALSE(execution_.resource().has_error());
  for (const char* host : kHosts) execution_.OnCommitted(host, out_);
  EXPECT_EQ(Taken(), "save-success");
}

// Regression: its new life knows no attempt, and its NOT_VERIFIED held up the commit.
TEST_F(ExecutionTest, AGiverWipedWhileTheDecisionIsWrittenHoldsUpNoCommit) {
  UntilDeciding();
  execution_.OnHostAway("c", lost_, now_, out_);
  Taken();
  execution_.OnHostReturned("c", false, out_);
  EXPECT_EQ(Taken(), "");
  execution_.OnSaved(Save::kDecision, now_, out_);
  EXPECT_EQ(Taken(), "a:commit b:commit c:commit");
  execution_.OnAttemptFailed("c", NotVerified(), now_, out_);
  execution_.OnCommitted("a", out_);
  execution_.OnCommitted("b", out_);
  EXPECT_EQ(Taken(), "save-success");
}

// A generation that was set aside, say: the host's stream goes on.
TEST_F(ExecutionTest, AReceiverThatHasNothingToCommitLeavesItIncomplete) {
  UntilCommitting();
  Taken();
  execution_.OnAttemptFailed("b", NotVerified(), now_, out_);
  EXPECT_TRUE(execution_.incomplete());
  EXPECT_EQ(Reason(), "NOT_VERIFIED");
  now_.steady += seconds(1);
  execution_.OnTick(now_, out_);
  EXPECT_EQ(Taken(), "b:commit") << "it may still find them";
  execution_.OnCommitted("b", out_);
  EXPECT_FALSE(execution_.incomplete());
  execution_.OnCommitted("a", out_);
  execution_.OnCommitted("c", out_);
  EXPECT_EQ(Taken(), "save-success");
}

// The host's machine rebooted: what it acknowledged may be gone.
TEST_F(ExecutionTest, AnAcknowledgementEndsWithTheLifeThatGaveIt) {
  UntilCommitting();
  execution_.OnCommitted("a", out_);
  execution_.OnHostAway("a", lost_, now_, out_);
  Taken();
  execution_.OnCommitted("b", out_);
  execution_.OnCommitted("c", out_);
  EXPECT_EQ(Taken(), "");  // was: save-success
  execution_.OnHostReturned("a", false, out_);
  EXPECT_EQ(Taken(), "");
  EXPECT_EQ(Reason(), "COMMIT_INCOMPLETE");
  EXPECT_TRUE(execution_.incomplete());
  execution_.OnHostAway("a", lost_, now_, out_);
  execution_.OnHostReturned("a", true, out_);  // the reboot was another machine's
  EXPECT_EQ(Taken(), "a:commit");
  EXPECT_FALSE(execution_.incomplete());
  execution_.OnCommitted("a", out_);
  EXPECT_EQ(Taken(), "save-success");
}

TEST_F(ExecutionTest, ADecisionThatIsGivenUpEndsFailed) {
  UntilCommitting();
  Taken();
  execution_.GiveUp(lost_);
  execution_.OnCommitted("a", out_);  // too late
  execution_.OnSaved(Save::kFailure, now_, out_);
  EXPECT_EQ(execution_.resource().phase(), v1::Execution::FAILED);
  EXPECT_EQ(Reason(), "WORKER_LOST");
}

// If the withdrawal was never written, the restored execution goes on committing.
TEST_F(ExecutionTest, NothingIsFreedBeforeItIsWrittenThatTheDecisionIsGivenUp) {
  UntilCommitting();
  execution_.OnHostAway("b", lost_, now_, out_);
  execution_.GiveUp(lost_);
  Taken();
  execution_.OnHostReturned("b", true, out_);
  EXPECT_EQ(Taken(), "");  // was: b:abort
}

// On hosts where Commit failed, and on those that only sent data, only the attempt is left.
TEST_F(ExecutionTest, AttemptsOfADecisionThatIsGivenUpEnd) {
  UntilCommitting();
  execution_.OnAttemptFailed("c", {}, now_, out_);
  execution_.OnHostAway("b", lost_, now_, out_);
  execution_.OnCommitted("a", out_);
  execution_.GiveUp(lost_);
  execution_.OnHostAway("a", lost_, now_, out_);
  execution_.OnHostReturned("a", true, out_);  // perhaps with an attempt that Commit did not reach
  Taken();
  execution_.OnSaved(Save::kFailure, now_, out_);
  EXPECT_EQ(Taken(), "a:abort c:abort");
  execution_.OnQuiesced("a", {}, now_, out_);
  execution_.OnQuiesced("c", {}, now_, out_);
  EXPECT_FALSE(execution_.forgettable());
  execution_.OnHostReturned("b", true, out_);
  EXPECT_EQ(Taken(), "b:abort");
  EXPECT_TRUE(execution_.forgettable());
}

// The record of a failed execution tells a host that comes back what it may free.
TEST_F(ExecutionTest, AFailedExecutionIsForgettableOnceAllHostsWereTold) {
  Start();
  execution_.OnHostAway("b", lost_, now_, out_);
  execution_.OnQuiesced("a", {}, now_, out_);
  execution_.OnQuiesced("c", {}, now_, out_);
  execution_.OnSaved(Save::kFailure, now_, out_);
  ASSERT_TRUE(execution_.ended());
  EXPECT_FALSE(execution_.forgettable());
  execution_.OnHostReturned("b", false, out_);
  EXPECT_TRUE(execution_.forgettable());
}

TEST_F(ExecutionTest, RestoredExecutionsCommitOnOrFail) {
  v1::Execution resource = execution_.resource();
  resource.set_phase(v1::Execution::COMMITTING);
  execution_ = Execution::Restore(Spec(), resource, out_);
  EXPECT_EQ(Taken(), "");
  execution_.OnHostReturned("a", true, out_);
  execution_.OnHostReturned("b", true, out_);
  EXPECT_EQ(Taken(), "a:commit b:commit");
  resource.set_phase(v1::Execution::TRANSFERRING);
  execution_ = Execution::Restore(Spec(), resource, out_);
  EXPECT_EQ(Taken(), "save-failure");
  EXPECT_EQ(Reason(), "PLANNER_RESTARTED");
  execution_.OnHostReturned("a", false, out_);
  EXPECT_EQ(Taken(), "a:abort");
}

TEST_F(ExecutionTest, UnknownHostsAndAnswersOutOfStepChangeNothing) {
  Start();
  Taken();
  execution_.OnPrepared("z", now_, out_);
  execution_.OnVerified("a", now_, out_);
  execution_.OnCommitted("a", out_);
  execution_.OnQuiesced("a", {}, now_, out_);
  Done("a", 0);
  execution_.OnHostAway("z", lost_, now_, out_);
  EXPECT_EQ(Taken(), "");
  EXPECT_EQ(execution_.step(), Step::kPreparing);
}

}  // namespace
}  // namespace remesh::server
