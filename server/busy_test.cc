// SPDX-License-Identifier: Apache-2.0
// What callers see while every planning thread is busy.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/caller.h"
#include "server/planning/planning_test_spec.h"
#include "server/server_fixture.h"

namespace remesh::server {
namespace {

v1::PlanSpec SpecOfRows(int64_t rows) {
  v1::PlanSpec spec = TestSpec();
  spec.mutable_arrays(0)->set_shape(0, rows);
  return spec;
}

class BusyTest : public ServerFixture {
 protected:
  static constexpr int kWaitingMax = 2;

  BusyTest() {
    core_options_.planner_threads = 1;
    core_options_.waiting_max = kWaitingMax;
    StopServer();
    StartServer();
  }
  ~BusyTest() override {
    if (!free_.HasBeenNotified()) free_.Notify();
    StopServer();  // its thread may still be reading free_
  }

  // Holds every planning thread but that of executions until Free().
  void Occupy() {
    OccupyPatient();
    Hold(core_->quick_planners());
  }
  // Holds the only thread for large plans.
  void OccupyPatient() { Hold(core_->planners()); }
  void Free() { free_.Notify(); }
  // Also fills the places to wait, each with a task of another caller.
  void Fill() {
    for (const char* caller : {"a", "b"}) {
      ASSERT_TRUE(core_->planners().Post(Turn{.caller = caller}, [] {}));
      ASSERT_TRUE(core_->quick_planners().Post(Turn{.caller = caller}, [] {}));
    }
  }

  // Holds one thread of the pool.
  void Hold(ThreadPool& pool, const std::string& caller = "") {
    absl::Notification begun;
    ASSERT_TRUE(pool.Post({.caller = caller}, [this, &begun] {
      begun.Notify();
      free_.WaitForNotification();
    }));
    begun.WaitForNotification();
  }

  absl::Notification free_;
};

TEST_F(BusyTest, WhatIsKnownIsAnswered) {
  const auto made = CreatePlan(SpecOfRows(8));
  ASSERT_TRUE(made.ok()) << made.status();
  Occupy();
  const auto again = CreatePlan(SpecOfRows(8));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->planning().cache(), v1::Planning::HIT);
  v1::GetPlanRequest get;
  get.set_name(made->plan().name());
  get.set_view(v1::FULL);
  EXPECT_TRUE(Ask<v1::Plan>([&](auto* c, auto* r) { return plans_->GetPlan(c, get, r); }).ok());
  const auto list =
      Ask<v1::ListPlansResponse>([&](auto* c, auto* r) { return plans_->ListPlans(c, {}, r); });
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->plans_size(), 1);
  EXPECT_TRUE(
      Ask<v1::CacheStats>([&](auto* c, auto* r) { return plans_->GetCacheStats(c, {}, r); }).ok());
  EXPECT_TRUE(Ask<v1::Topology>([&](auto* c, auto* r) {
                return workers_stub_->GetTopology(c, {}, r);
              }).ok());
}

TEST_F(BusyTest, MoreQuestionsThanMayWaitAreRefused) {
  Occupy();
  Fill();
  const absl::Status busy = CreatePlan(SpecOfRows(16)).status();
  EXPECT_EQ(busy.code(), absl::StatusCode::kResourceExhausted) << busy;
  EXPECT_EQ(GetErrorInfo(busy).reason, "PLANNER_BUSY");
}

TEST_F(BusyTest, SmallPlansDoNotWaitForLargeOnesOfAnyNumberOfCallers) {
  OccupyPatient();
  for (const char* caller : {"a", "b"}) {
    ASSERT_TRUE(core_->planners().Post(Turn{.caller = caller}, [] {}));
  }
  const auto small = CreatePlan(SpecOfRows(40));
  EXPECT_TRUE(small.ok()) << small.status();
}

TEST_F(BusyTest, StatesAreMadeMeanwhile) {
  AttachWorkers();
  Occupy();
  Fill();
  const auto state = Create(MakeState(kRows));
  EXPECT_TRUE(state.ok()) << state.status();
}

TEST_F(BusyTest, ExecutionsDoNotWaitForQuestions) {
  AttachWorkers();
  CreateReadyState();
  Occupy();
  Fill();
  const auto execution = StartExecution(1, "{devices=[1,4]<=[4]}");
  EXPECT_TRUE(execution.ok()) << execution.status();
}

TEST_F(BusyTest, AMoveThatIsKnownIsAnswered) {
  AttachWorkers();
  CreateReadyState();
  AwaitEnd(StartExecution(1, "{devices=[1,4]<=[4]}")->name());
  AwaitEnd(StartExecution(2, kRows)->name());
  Occupy();
  Fill();
  v1::StartExecutionRequest request;
  request.set_state(kState);
  request.set_expected_generation(3);
  *request.mutable_targets() = MakeTargets("{devices=[1,4]<=[4]}");
  request.set_validate_only(true);
  const auto known = StartExecution(request);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->planning().cache(), v1::Planning::HIT);
}

// Regression: eight callers that read a plan at a chunk a minute stopped the executions of all
// jobs, because workers fetch their programs when they prepare.
TEST_F(BusyTest, HostProgramsDoNotWaitForReadersWhoTrickle) {
  const auto made = CreatePlan(SpecOfRows(8));
  ASSERT_TRUE(made.ok()) << made.status();
  for (int reader = 0; reader < core_options_.stream_threads; ++reader) {
    Hold(core_->streamers(), absl::StrCat("reader ", reader));
  }
  v1::GetHostProgramRequest request;
  request.set_plan(made->plan().name());
  request.set_host("host-0");
  const auto program = Ask<v1::HostProgram>([&](auto* context, auto* response) {
    auto stream = plans_->GetHostProgram(context, request);
    while (stream->Read(response)) continue;
    return stream->Finish();
  });
  EXPECT_TRUE(program.ok()) << program.status();
}

// For plans and for programs; three readers that have stopped leave threads too. Regression: one of
// them held up every host's program, two of them every plan.
TEST_F(BusyTest, AReaderHasAQuarterOfTheThreadsOfStreams) {
  for (ThreadPool* pool : {&core_->streamers(), &core_->programs()}) {
    for (const char* reader : {"a", "b", "c"}) {
      for (int i = 0; i < core_options_.stream_threads / 4; ++i) Hold(*pool, reader);
    }
    ASSERT_TRUE(pool->Post({.caller = "a"}, [this] { free_.WaitForNotification(); }));
    auto answered = std::make_shared<absl::Notification>();
    ASSERT_TRUE(pool->Post({.caller = "d"}, [answered] { answered->Notify(); }));
    EXPECT_TRUE(answered->WaitForNotificationWithTimeout(absl::Seconds(20)));
  }
}

TEST_F(BusyTest, QuestionsOfCallersWhoHaveGoneAreNotPlanned) {
  Occupy();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  v1::CreatePlanRequest request;
  *request.mutable_spec() = SpecOfRows(24);
  v1::CreatePlanResponse response;
  EXPECT_EQ(plans_->CreatePlan(&context, request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  const auto stats = [&] {
    return Ask<v1::CacheStats>([&](auto* c, auto* r) { return plans_->GetCacheStats(c, {}, r); });
  };
  Free();
  // The thread has reached the question after the one that was given up.
  // Until then the abandoned question keeps its place in the queue.
  auto planned = CreatePlan(SpecOfRows(32));
  while (GetErrorInfo(planned.status()).reason == "PLANNER_BUSY")
    planned = CreatePlan(SpecOfRows(32));
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(stats()->computations(), 1);
}

TEST(CallerTest, AllConnectionsOfAnAddressAreOneCaller) {
  EXPECT_EQ(AddressOfPeer("ipv4:10.0.0.7:4711"), "10.0.0.7");
  EXPECT_EQ(AddressOfPeer("ipv6:%5B2001:db8:1:2::7%5D:4711"), "2001:db8:1:2::/64");
  EXPECT_EQ(AddressOfPeer("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:80"), "2001:db8:1:2::/64");
  EXPECT_EQ(AddressOfPeer("ipv6:%5Bfe80::1%25eth0%5D:80"), "fe80::/64");
  EXPECT_EQ(AddressOfPeer("ipv6:%5B::ffff:10.0.0.7%5D:80"), "10.0.0.7");
  EXPECT_EQ(AddressOfPeer("unix:/run/remesh.sock"), "unix:/run/remesh.sock");
}

}  // namespace
}  // namespace remesh::server
