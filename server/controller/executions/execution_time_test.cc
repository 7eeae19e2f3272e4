// SPDX-License-Identifier: Apache-2.0
// What ends an execution that takes too long: its deadline, and transfers that stall.
#include "server/controller/testing/execution_test_world.h"

namespace remesh::server {
namespace {

TEST_F(ExecutionTest, TheServersOwnPauseMovesItsDeadlines) {
  Start();
  Taken();
  execution_.ExtendDeadlines(seconds(50));
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
    const v1::Abort& abort = std::get<SendCommand>(action).message.abort();
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
  execution_.ExtendDeadlines(seconds(20));
  EXPECT_EQ(after(44), Step::kTransferring);
  EXPECT_EQ(after(1), Step::kAborting);
  EXPECT_EQ(Reason(), "LINK_STALLED");
}

TEST_F(ExecutionTest, NcclMayTakeItsTimeToConnect) {
  v1::Communicators communicators;
  communicators.set_name("n");
  execution_.Start(Peers(communicators), out_);
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

}  // namespace
}  // namespace remesh::server
