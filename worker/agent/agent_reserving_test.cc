// SPDX-License-Identifier: Apache-2.0
// Events during the reserving of memory.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "service/rpc/error_info.h"
#include "worker/agent/testing/agent_fixture.h"

namespace remesh::worker {
namespace {

// Work on the files and loans of host 0 waits until Go().
class AgentReservingTest : public AgentTest {
 protected:
  ~AgentReservingTest() override {
    if (!go_.HasBeenNotified()) go_.Notify();
    hosts_[0].reset();  // its files and loans wait for go_
  }
  void HoldFilesAndLoans() {
    for (Strand* const held : {&hosts_[0]->files, &hosts_[0]->loans})
      held->Post([this] { go_.WaitForNotification(); });
  }
  void Go() { go_.Notify(); }
  int64_t Manifests(int host) { return hosts_[host]->Attach().manifests_size(); }

  absl::Notification go_;
};

TEST_F(AgentReservingTest, AnAttemptAbortedWhileItReservesLeavesNothing) {
  ReadyToMove();
  HoldFilesAndLoans();
  Prepare();
  EXPECT_EQ(GetErrorInfo(hosts_[0]->Unseal().status()).reason, "STATE_MOVING");
  Abort();  // at once, however long the files take
  EXPECT_EQ(hosts_[0]->Attach().attempts_size(), 0);
  EXPECT_EQ(Manifests(0), 1);
  Go();
  ++attempt_;
  Prepared();
  Transfer();
  Verify();
  Commit();
  EXPECT_TRUE(hosts_[0]->Right(*hosts_[0]->GetShards(2)));
}

TEST_F(AgentReservingTest, AnAbortDoesNotWaitBehindAnAllocate) {
  ReadyToMove();
  Prepared();
  Command(0, [&](v1::AttachResponse& c) {
    v1::Assignment other = Rows(0);
    other.set_state("jobs/a/states/other");
    *c.mutable_assign_state()->mutable_assignment() = other;
  });
  HoldFilesAndLoans();
  v1::AllocateRequest request;
  request.set_state("jobs/a/states/other");
  std::thread allocating([&] { EXPECT_TRUE(hosts_[0]->Allocate(request).ok()); });
  Abort();
  Go();
  allocating.join();
}

TEST_F(AgentReservingTest, AnAbortDoesNotWaitBehindALoan) {
  ReadyToMove();
  Prepared();
  constexpr char kOther[] = "jobs/a/states/other";
  Command(0, [&](v1::AttachResponse& c) {
    v1::Assignment other = Rows(0);
    other.set_state(kOther);
    *c.mutable_assign_state()->mutable_assignment() = other;
  });
  HoldFilesAndLoans();
  v1::LendRequest request = LendRows(hosts_[0]->handles, "");
  request.set_state(kOther);
  std::thread lending([&] { EXPECT_TRUE(hosts_[0]->Lend(request).ok()); });
  while (hosts_[0]->OnStrand([](Agent& agent) { return agent.calls().waiting(); }) == 0)
    std::this_thread::yield();
  Abort();
  EXPECT_EQ(Manifests(0), 1) << "nothing is lent yet";
  Go();
  lending.join();
  EXPECT_EQ(Manifests(0), 2);
}

TEST_F(AgentReservingTest, AStateThatIsForgottenWhileItIsLentLeavesNothing) {
  HoldFilesAndLoans();
  const v1::LendRequest request = LendRows(hosts_[0]->handles, "");
  std::thread lending(
      [&] { EXPECT_EQ(GetErrorInfo(hosts_[0]->Lend(request).status()).reason, "STATE_CHANGED"); });
  while (hosts_[0]->OnStrand([](Agent& agent) { return agent.calls().waiting(); }) == 0)
    std::this_thread::yield();
  Command(0, [&](v1::AttachResponse& c) { c.mutable_forget_state()->set_state(kState); });
  ASSERT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kForgotten));
  lending.join();
  Go();
  EXPECT_EQ(Manifests(0), 0);
}

TEST_F(AgentReservingTest, AnAttemptCutOffWhileItReservesIsNamedAndLeavesNoMove) {
  ReadyToMove();
  HoldFilesAndLoans();
  Prepare();
  // The planner starts again, and ends what it is told of and does not know.
  const v1::Register attaching = hosts_[0]->Attach();
  ASSERT_EQ(attaching.attempts_size(), 1);
  Welcome(0, "ours");
  Command(0, [&](v1::AttachResponse& c) {
    *c.mutable_abort()->mutable_attempt() = attaching.attempts(0);
    c.mutable_abort()->set_state(kState);
    c.mutable_abort()->set_generation(2);
  });
  ASSERT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kQuiesced));
  EXPECT_TRUE(hosts_[0]->Unseal().ok());
  Go();
}

TEST_F(AgentReservingTest, StagingIsReservedOffTheStrand) {
  ReadyToMove();
  absl::Notification fetched;
  hosts_[0]->fetching = [&] {
    HoldFilesAndLoans();
    fetched.Notify();
  };
  Prepare();
  fetched.WaitForNotification();
  ASSERT_TRUE(hosts_[1]->WaitFor(v1::AttachRequest::kPrepared));
  EXPECT_TRUE(hosts_[0]->Right(*hosts_[0]->GetShards(1)));  // it answers
  Go();
  ASSERT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kPrepared));
  Abort();
  EXPECT_EQ(Manifests(0), 1);
}

TEST_F(AgentReservingTest, AStateIsForgottenWhenNothingReservesItAnyMore) {
  ReadyToMove();
  Prepared();
  Command(0, [&](v1::AttachResponse& c) { c.mutable_forget_state()->set_state(kState); });
  ASSERT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kForgotten));
  EXPECT_EQ(hosts_[0]->Attach().attempts_size(), 0);
  EXPECT_EQ(Manifests(0), 0);
  Command(
      0, [&](v1::AttachResponse& c) { *c.mutable_assign_state()->mutable_assignment() = Rows(0); });
  HoldFilesAndLoans();
  v1::AllocateRequest request;
  request.set_state(kState);
  std::thread allocating([&] {
    EXPECT_EQ(GetErrorInfo(hosts_[0]->Allocate(request).status()).reason, "STATE_NOT_FOUND");
  });
  while (hosts_[0]->OnStrand([](Agent& agent) { return agent.calls().waiting(); }) == 0)
    std::this_thread::yield();
  Command(0, [&](v1::AttachResponse& c) { c.mutable_forget_state()->set_state(kState); });
  ASSERT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kForgotten));
  allocating.join();
  EXPECT_EQ(Manifests(0), 0);
  Go();
}

TEST_F(AgentReservingTest, BuffersOfAnEarlierStateOfTheNameStay) {
  ReadyToMove();
  const auto assign = [&] {
    Command(0, [&](v1::AttachResponse& c) {
      v1::Assignment later = Rows(0);
      later.set_state_uid("later");
      *c.mutable_assign_state()->mutable_assignment() = later;
    });
  };
  assign();
  v1::AllocateRequest request;
  request.set_state(kState);
  const ErrorInfo stale = GetErrorInfo(hosts_[0]->Allocate(request).status());
  EXPECT_EQ(stale.reason, "STALE_SHARDS");
  EXPECT_EQ(stale.metadata.at("host"), "host-0");
  Prepare([](v1::Prepare& prepare) { prepare.mutable_target()->set_state_uid("later"); });
  const auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  EXPECT_EQ(GetErrorInfo(service::StatusFromProto(failed->failed().error())).reason,
            "STALE_SHARDS");
  EXPECT_EQ(Manifests(0), 1);
  Command(0, [&](v1::AttachResponse& c) { c.mutable_forget_state()->set_state(kState); });
  EXPECT_EQ(Manifests(0), 0);
  Abort();
  EXPECT_TRUE(hosts_[0]->Allocate(request).ok());
}

TEST_F(AgentReservingTest, AnotherAttemptDoesNotFreeWhatIsVerified) {
  ReadyToMove();
  Prepared();
  Transfer();
  Verify();
  hosts_[0].reset();
  StartHost(0);
  ++attempt_;
  Prepare();
  const auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  EXPECT_EQ(GetErrorInfo(service::StatusFromProto(failed->failed().error())).reason,
            "GENERATION_EXISTS");
  EXPECT_EQ(Manifests(0), 2);
}

// Host 0 waits for host 1, which may not begin yet.
TEST_F(AgentTest, AHostSaysWhatItWaitsForWhenAMoveStalls) {
  ReadyToMove();
  Prepared();
  Grant(0);
  const absl::Status stalled = MakeError(absl::StatusCode::kUnavailable, "no progress",
                                         {.reason = "LINK_STALLED", .metadata = {}});
  for (int h = 0; h < 2; ++h) {
    Command(h, [&](v1::AttachResponse& c) {
      SetAbort(c);
      *c.mutable_abort()->mutable_error() = service::StatusToProto(stalled);
    });
  }
  const auto waits = [&](int h) {
    const auto quiesced = hosts_[h]->WaitFor(v1::AttachRequest::kQuiesced);
    EXPECT_TRUE(quiesced);
    return GetErrorInfo(service::StatusFromProto(quiesced->quiesced().error()));
  };
  const ErrorInfo first = waits(0);
  EXPECT_EQ(first.reason, "LINK_STALLED");
  EXPECT_EQ(first.metadata.at("receives_from"), "host-1");
  EXPECT_EQ(waits(1).reason, "OK");
}

// Links take their time to let go after a commit.
class AgentLingeringTest : public AgentTest {
 protected:
  AgentLingeringTest() {
    tap_.lingers = &lingers_;
    StartBoth();
  }

  std::atomic<bool> lingers_ = true;
};

// Regression: a state that was made again at once was refused as one that may not be freed
// (STALE_SHARDS).
TEST_F(AgentLingeringTest, AStateThatIsMadeAgainWaitsUntilTheOldOneIsForgotten) {
  ReadyToMove();
  Prepared();
  Transfer();
  Verify();
  Commit();
  Command(0, [&](v1::AttachResponse& c) { c.mutable_forget_state()->set_state(kState); });
  Command(0, [&](v1::AttachResponse& c) {
    *c.mutable_assign_state()->mutable_assignment() = Rows(0);
    c.mutable_assign_state()->mutable_assignment()->set_state_uid("new");
  });
  v1::AllocateRequest request;
  request.set_state(kState);
  auto allocated = std::async([&] { return hosts_[0]->Allocate(request); });
  const auto waiting = [&] {
    return hosts_[0]->OnStrand([](Agent& agent) { return agent.calls().waiting(); });
  };
  while (waiting() == 0) {
    ASSERT_EQ(allocated.wait_for(std::chrono::seconds(0)), std::future_status::timeout)
        << allocated.get().status();
  }
  lingers_ = false;
  EXPECT_TRUE(hosts_[0]->WaitFor(v1::AttachRequest::kForgotten));
  const auto shards = allocated.get();
  EXPECT_TRUE(shards.ok()) << shards.status();
}

// Regression: a move that followed at once found the memory of the retired generation in use, and
// made new memory.
TEST_F(AgentLingeringTest, TheNextMoveTakesOverMemoryThatIsStillHeld) {
  ReadyToMove();
  Prepared();
  Transfer();
  Verify();
  Commit();
  ++attempt_;
  for (int h = 0; h < 2; ++h) {
    Command(h, [&](v1::AttachResponse& c) {
      c.mutable_retire()->set_state(kState);
      c.mutable_retire()->set_generation(1);
    });
  }
  Prepare([&](v1::Prepare& prepare) {
    *prepare.mutable_target() = Rows(prepare.self());
    prepare.mutable_target()->set_generation(3);
    prepare.set_source_generation(2);
  });
  lingers_ = false;
  for (auto& host : hosts_) {
    ASSERT_TRUE(host->WaitFor(v1::AttachRequest::kFailed)) << "the program is of another move";
    EXPECT_EQ(host->recycled(), 1);
  }
  Abort();
}

}  // namespace
}  // namespace remesh::worker
