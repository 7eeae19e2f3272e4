// SPDX-License-Identifier: Apache-2.0
//
// An operator's actions on a running server: end it, change its settings, upgrade around it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "server/testing/server_fixture.h"

namespace remesh::server {
namespace {

using Command = v1::AttachResponse;

class DrainTest : public ServerFixture {
 protected:
  absl::StatusOr<v1::Execution> StartHeld(ScriptedWorker::OnCommand on_command) {
    // Counted before the command is carried out, so a worker that delays a command has not ended
    // it.
    AttachWorkers([this, on_command](ScriptedWorker& worker, const Command& command) {
      if (command.has_verify() && !asked_.exchange(true)) verify_came_.Notify();
      return on_command(worker, command);
    });
    CreateReadyState();
    const auto started = StartExecution(1, kColumns);
    EXPECT_TRUE(verify_came_.WaitForNotificationWithTimeout(absl::Seconds(10)));
    return started;
  }

  LiveOptions Live() const {
    const ControllerOptions& now = core_options_.controller;
    return {.execution_deadline = now.execution_deadline,
            .states_max = now.states_max,
            .states_per_job = now.states_per_job,
            .bytes_per_job = now.bytes_per_job,
            .finished_executions_max = now.finished_executions_max,
            .join_token_hashes = {},
            .topology_rules = now.topology_rules};
  }

  std::atomic<bool> asked_ = false;
  absl::Notification verify_came_;
};

TEST_F(DrainTest, WithNoExecutionItTakesNoTimeAndNoneBegins) {
  AttachWorkers();
  CreateReadyState();
  core_->Drain(std::chrono::hours(24));
  EXPECT_EQ(GetErrorInfo(StartExecution(1, kColumns).status()).reason, "SERVER_STOPS");
}

TEST_F(DrainTest, AnExecutionThatRunsMayEnd) {
  absl::Notification release;
  const auto started = StartHeld([&](ScriptedWorker&, const Command& command) {
    if (command.has_verify()) release.WaitForNotification();
    return false;
  });
  ASSERT_TRUE(started.ok()) << started.status();
  absl::Notification drained;
  std::thread drain([&] {
    core_->Drain(std::chrono::hours(24));
    drained.Notify();
  });
  EXPECT_FALSE(drained.HasBeenNotified());
  release.Notify();
  drain.join();
  EXPECT_EQ(GetExecution(started->name())->phase(), v1::Execution::SUCCEEDED);
  EXPECT_EQ(GetState()->generation(), 2);
}

TEST_F(DrainTest, OneThatDoesNotEndInTimeFailsAndItsSourceStays) {
  const auto started =
      StartHeld([](ScriptedWorker&, const Command& command) { return command.has_verify(); });
  ASSERT_TRUE(started.ok()) << started.status();
  core_->Drain(std::chrono::nanoseconds(0));
  const auto ended = GetExecution(started->name());
  EXPECT_EQ(ended->phase(), v1::Execution::FAILED);
  EXPECT_NE(ended->error().DebugString().find("SERVER_STOPS"), std::string::npos)
      << ended->error().DebugString();
  EXPECT_EQ(GetState()->generation(), 1);
}

// Regression: states took fifty times their requests in memory, and nothing limited that.
TEST_F(DrainTest, TheArraysAndShardsOfAllStatesAreLimited) {
  StopServer();
  core_options_.controller.state_entries_max = 9;
  StartServer();
  AttachWorkers();
  CreateReadyState();  // an array and four shards
  v1::State other = MakeState(kRows);
  other.set_name("jobs/a/states/other");
  EXPECT_EQ(GetErrorInfo(Create(other).status()).reason, "TOO_MANY_ARRAYS");
}

TEST_F(DrainTest, LimitsHoldFromWhenTheyChange) {
  AttachWorkers();
  CreateReadyState();
  LiveOptions live = Live();
  live.states_max = 1;
  ASSERT_TRUE(core_->SetLive(live, {.max_bytes = 1 << 20}).ok());
  v1::State other = MakeState(kRows);
  other.set_name("jobs/a/states/other");
  EXPECT_EQ(GetErrorInfo(Create(other).status()).reason, "TOO_MANY_STATES");
  live.states_max = 2;
  ASSERT_TRUE(core_->SetLive(live, {.max_bytes = 1 << 20}).ok());
  EXPECT_TRUE(Create(other).ok());
}

TEST_F(DrainTest, QuotasOfJobsHoldFromWhenTheyChange) {
  AttachWorkers();
  CreateReadyState();
  v1::State other = MakeState(kRows);
  other.set_name("jobs/a/states/other");
  const auto refusal_with = [&](int64_t states, int64_t bytes) {
    LiveOptions live = Live();
    live.states_per_job = states;
    live.bytes_per_job = bytes;
    EXPECT_TRUE(core_->SetLive(live, {.max_bytes = 1 << 20}).ok());
    return std::string(Create(other).status().message());
  };
  EXPECT_THAT(refusal_with(1, 0), testing::HasSubstr("states_per_job 1"));
  EXPECT_THAT(refusal_with(0, 1), testing::HasSubstr("bytes_per_job 1"));
  EXPECT_EQ(refusal_with(2, 0), "");
}

TEST_F(DrainTest, ATopologyThatAWorkerDoesNotFitChangesNothing) {
  v1::Register identity = WorkerIdentity("c", 8, 1);
  identity.set_parent("rack-1");
  v1::TopologyRules racks;
  v1::Domain& rack = *racks.add_domains();
  rack.set_name("rack-1");
  rack.set_egress_bytes_per_second(1e9);
  rack.set_ingress_bytes_per_second(1e9);
  LiveOptions live = Live();
  live.topology_rules = *TopologyRules::Make(racks);
  ASSERT_TRUE(core_->SetLive(live, {.max_bytes = 1 << 20}).ok());
  workers_.push_back(std::make_unique<ScriptedWorker>(channel_, identity));
  ASSERT_TRUE(workers_.back()->Await(Command::kWelcome, 1));
  EXPECT_EQ(core_->topology()->domains.size(), 1u);

  live.topology_rules = TopologyRules();
  const absl::Status refused = core_->SetLive(live, {.max_bytes = 1 << 20});
  EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "topology") << refused;
  EXPECT_EQ(GetErrorInfo(refused).metadata["value"], "c");
  EXPECT_EQ(core_->topology()->domains.size(), 1u);
}

// An older release, and one that says what this server does not know.
TEST_F(DrainTest, AWorkerOfAnotherReleaseIsTakenInAndCounted) {
  v1::Register identity = WorkerIdentity("c", 8, 1);
  identity.set_version("0.0.9");
  auto& unknown = *identity.GetReflection()->MutableUnknownFields(&identity);
  unknown.AddLengthDelimited(15000, "of a later release");
  unknown.AddVarint(15001, 7);
  workers_.push_back(std::make_unique<ScriptedWorker>(channel_, identity));
  ASSERT_TRUE(workers_.back()->Await(Command::kWelcome, 1));
  EXPECT_TRUE(Eventually([this] { return others_ == 1; }));
}

}  // namespace
}  // namespace remesh::server
