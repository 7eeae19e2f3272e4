// SPDX-License-Identifier: Apache-2.0
#include "server/controller/execution.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "google/rpc/error_details.pb.h"
#include "service/error_info.h"

namespace remesh::server {
namespace {

using Step = Execution::Step;
using std::chrono::seconds;

// Hosts "a" and "b" receive, "c" only gives.
class ExecutionTest : public testing::Test {
 protected:
  static ExecutionSpec Spec() {
    ExecutionSpec spec{.fingerprint = "f",
                       .window_bytes = 1,
                       .grant_ahead = 2,
                       .deadline = seconds(100),
                       .stall_timeout = seconds(30),
                       .quiesce_timeout = seconds(10)};
    spec.attempt.set_execution("jobs/j/executions/e");
    spec.attempt.set_attempt(1);
    for (const char* host : {"a", "b", "c"}) {
      Participant& participant = spec.participants.emplace_back();
      participant.host = host;
      if (*host == 'c') continue;
      auto target = std::make_shared<PlacedState>();
      target->hosts[host];
      participant.target = std::move(target);
    }
    return spec;
  }

  static v1::Execution Resource(int windows = 5) {
    v1::Execution resource;
    resource.set_name("jobs/j/executions/e");
    resource.set_state("jobs/j/states/s");
    resource.set_source_generation(1);
    resource.set_target_generation(2);
    resource.set_windows(windows);
    return resource;
  }

  void Start() { execution_.Start(std::vector<v1::PeerEntry>(3), {}, out_); }
  void AllPrepared() {
    for (const char* host : kHosts) execution_.OnPrepared(host, now_, out_);
  }
  void Done(const char* host, int window) {
    v1::WindowDone done;
    done.set_window(window);
    execution_.OnWindowDone(host, done, now_, out_);
  }
  void AllTransferred() {
    for (int window = 0; window < 5; ++window) {
      for (const char* host : kHosts) Done(host, window);
    }
  }
  void AllVerified() {
    for (const char* host : kHosts) execution_.OnVerified(host, now_, out_);
  }
  void UntilCommitting() {
    Start();
    AllPrepared();
    AllTransferred();
    AllVerified();
    execution_.OnSaved(Save::kDecision, now_, out_);
  }

  // Takes what was asked for since the last call: "a:prepare b:grant save-decision ...".
  std::string Taken() {
    std::string text;
    for (const ExecutionAction& action : std::exchange(out_, {})) {
      if (!text.empty()) text += " ";
      if (const Tell* tell = std::get_if<Tell>(&action)) {
        text += tell->host + ":" +
                v1::AttachResponse::descriptor()
                    ->FindFieldByNumber(tell->message.command_case())
                    ->name();
      } else if (const Save* save = std::get_if<Save>(&action)) {
        text += *save == Save::kDecision  ? "save-decision"
                : *save == Save::kSuccess ? "save-success"
                                          : "save-failure";
      } else {
        text += "give-up-on:" + std::get<GiveUpOn>(action).host;
      }
    }
    return text;
  }

  std::string Reason() const {
    return GetErrorInfo(service::StatusFromProto(execution_.resource().error())).reason;
  }

  static constexpr const char* kHosts[] = {"a", "b", "c"};
  Moment now_{.steady = seconds(1), .wall = absl::UnixEpoch()};
  ExecutionActions out_;
  Execution execution_{Spec(), Resource()};
  const absl::Status lost_ =
      MakeError(absl::StatusCode::kUnavailable, "lost", {.reason = "WORKER_LOST", .metadata = {}});
};

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

TEST_F(ExecutionTest, GrantsRunAheadOfTheSlowestHost) {
  Start();
  AllPrepared();
  EXPECT_EQ(std::get<Tell>(out_.back()).message.grant().until(), 2);
  Taken();
  Done("a", 0);
  Done("a", 1);
  Done("b", 0);
  EXPECT_EQ(Taken(), "");
  Done("a", 4);  // never granted
  EXPECT_EQ(execution_.resource().hosts(0).windows_done(), 2);
  Done("c", 0);
  EXPECT_EQ(std::get<Tell>(out_.back()).message.grant().until(), 3);
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
      MakeError(absl::StatusCode::kAborted, "written meanwhile", {"SOURCE_MODIFIED", {}}));
  for (const google::rpc::Status& found : {google::rpc::Status(), modified}) {
    execution_ = Execution(Spec(), Resource());
    Start();
    AllPrepared();
    out_.clear();
    execution_.OnAttemptFailed("b", mismatch, now_, out_);
    for (const ExecutionAction& action : out_) {
      const v1::Abort& abort = std::get<Tell>(action).message.abort();
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
  EXPECT_FALSE(std::get<Tell>(out_[0]).message.abort().has_error());
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

TEST_F(ExecutionTest, TheServersOwnPauseMovesItsDeadlines) {
  Start();
  Taken();
  execution_.Forgive(seconds(50));
  now_.steady = seconds(120);
  execution_.OnTick(now_, out_);
  EXPECT_EQ(Taken(), "");
  now_.steady = seconds(150);
  execution_.OnTick(now_, out_);
  EXPECT_EQ(Reason(), "EXECUTION_DEADLINE");
}

TEST_F(ExecutionTest, TheDeadlineFailsAndSlowAbortsAreGivenUpOn) {
  Start();
  Taken();
  now_.steady = seconds(100);
  execution_.OnTick(now_, out_);
  EXPECT_EQ(Taken(), "a:abort b:abort c:abort");
  EXPECT_EQ(Reason(), "EXECUTION_DEADLINE");
  execution_.OnQuiesced("a", {}, now_, out_);
  now_.steady = seconds(110);
  execution_.OnTick(now_, out_);
  EXPECT_EQ(Taken(), "give-up-on:b give-up-on:c");
}

TEST_F(ExecutionTest, TheDeadlinesErrorNamesTheHostsThatAreBehind) {
  const auto late = [this](auto run) {
    execution_ = Execution(Spec(), Resource());
    now_.steady = seconds(1);
    run();
    now_.steady = seconds(100);
    execution_.OnTick(now_, out_);
    const ErrorInfo info = GetErrorInfo(service::StatusFromProto(execution_.resource().error()));
    EXPECT_EQ(info.reason, "EXECUTION_DEADLINE");
    return info.metadata.at("phase") + " " + info.metadata.at("hosts");
  };
  EXPECT_EQ(late([] {}), "QUEUED ");
  EXPECT_EQ(late([&] {
              Start();
              execution_.OnPrepared("b", now_, out_);
            }),
            "PREPARING a,c");
  EXPECT_EQ(late([&] {
              Start();
              AllPrepared();
              Done("a", 0);
              Done("c", 0);
            }),
            "TRANSFERRING b");
  EXPECT_EQ(late([&] {
              Start();
              AllPrepared();
              AllTransferred();
              execution_.OnVerified("a", now_, out_);
            }),
            "VERIFYING b,c");
}

TEST_F(ExecutionTest, TransfersThatStallNameTheLinksWhereBothEndsWait) {
  const auto waits = [](const char* receives_from, const char* sends_to) {
    return service::StatusToProto(
        MakeError(absl::StatusCode::kUnavailable, "transfers make no progress",
                  {.reason = "LINK_STALLED",
                   .metadata = {{"receives_from", receives_from}, {"sends_to", sends_to}}}));
  };
  const auto links = [this] {
    const auto info = GetErrorInfo(service::StatusFromProto(execution_.resource().error()));
    EXPECT_EQ(info.reason, "LINK_STALLED");
    const auto found = info.metadata.find("links");
    return found == info.metadata.end() ? "" : found->second;
  };
  Start();
  AllPrepared();
  Taken();
  now_.steady += seconds(30);
  execution_.OnTick(now_, out_);
  for (const ExecutionAction& action : out_) {
    const v1::Abort& abort = std::get<Tell>(action).message.abort();
    EXPECT_EQ(GetErrorInfo(service::StatusFromProto(abort.error())).reason, "LINK_STALLED");
  }
  EXPECT_EQ(Taken(), "a:abort b:abort c:abort");
  execution_.OnQuiesced("a", waits("b", ""), now_, out_);  // as b waits for c
  execution_.OnQuiesced("b", waits("c", ""), now_, out_);
  EXPECT_EQ(links(), "");
  execution_.OnQuiesced("c", waits("", "b"), now_, out_);
  EXPECT_EQ(links(), "c->b");
  EXPECT_EQ(Taken(), "save-failure");
}

TEST_F(ExecutionTest, AnyProgressIsNoStall) {
  const auto after = [this](int more) {
    now_.steady += seconds(more);
    execution_.OnTick(now_, out_);
    return execution_.step();
  };
  Start();
  EXPECT_EQ(after(10), Step::kPreparing);
  AllPrepared();
  EXPECT_EQ(after(29), Step::kTransferring);
  Done("b", 0);
  EXPECT_EQ(after(29), Step::kTransferring);
  EXPECT_FALSE(execution_.Stalls(now_));
  now_.steady += seconds(1);
  EXPECT_TRUE(execution_.Stalls(now_));
  execution_.OnMoved(now_.steady - seconds(5));
  EXPECT_FALSE(execution_.Stalls(now_));
  execution_.Forgive(seconds(20));
  EXPECT_EQ(after(44), Step::kTransferring);
  EXPECT_EQ(after(1), Step::kAborting);
  EXPECT_EQ(Reason(), "LINK_STALLED");
}

TEST_F(ExecutionTest, NcclMayTakeItsTimeToConnect) {
  v1::Communicators communicators;
  communicators.set_name("n");
  execution_.Start(std::vector<v1::PeerEntry>(3), communicators, out_);
  AllPrepared();
  now_.steady += seconds(90);
  EXPECT_FALSE(execution_.Stalls(now_));
  for (const char* host : kHosts) Done(host, 0);
  now_.steady += seconds(30);
  EXPECT_TRUE(execution_.Stalls(now_));
}

// Regression: deadlines were looked at in ticks only, so a deadline of 1 ns succeeded.
TEST_F(ExecutionTest, NothingIsDecidedOnceTheDeadlineHasPassed) {
  Start();
  AllPrepared();
  AllTransferred();
  Taken();
  now_.steady = seconds(100);
  AllVerified();
  EXPECT_EQ(Taken(), "a:abort b:abort c:abort");
  EXPECT_EQ(Reason(), "EXECUTION_DEADLINE");
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
