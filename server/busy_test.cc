// SPDX-License-Identifier: Apache-2.0
// What callers see while every planning thread is busy.
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "server/planning/planning_test_spec.h"
#include "server/server_fixture.h"

namespace remesh {
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

  // Holds the only planning thread until Free().
  void Occupy() {
    absl::Notification begun;
    ASSERT_TRUE(core_->planners().Post([this, &begun] {
      begun.Notify();
      free_.WaitForNotification();
    }));
    begun.WaitForNotification();
  }
  void Free() { free_.Notify(); }
  // Takes the places to wait as well.
  void Fill() {
    for (int i = 0; i < kWaitingMax; ++i) ASSERT_TRUE(core_->planners().Post([] {}));
  }

 private:
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
  const absl::Status state = Create(MakeState("{devices=[4,1]<=[4]}")).status();
  EXPECT_EQ(GetErrorInfo(state).reason, "PLANNER_BUSY") << state;
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
  // The thread has come to what is asked after the question that was given up.
  ASSERT_TRUE(CreatePlan(SpecOfRows(32)).ok());
  EXPECT_EQ(stats()->computations(), 1);
}

}  // namespace
}  // namespace remesh
