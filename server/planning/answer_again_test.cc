// SPDX-License-Identifier: Apache-2.0
// Questions asked again in the same words.
#include <gtest/gtest.h>

#include "server/questions/create_plan.h"
#include "server/questions/planning_test_spec.h"

namespace remesh::server {

using planner::Topology;

namespace {

class AnswerAgainTest : public ::testing::Test {
 protected:
  v1::CreatePlanRequest RequestOf(const v1::PlanSpec& spec) {
    v1::CreatePlanRequest request;
    *request.mutable_spec() = spec;
    return request;
  }
  v1::Plan Create(const v1::CreatePlanRequest& request, const Topology* workers = nullptr) {
    const auto response = CreatePlan(cache_, request, workers);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->plan() : v1::Plan();
  }

  PlanCache cache_{1 << 30};
};

TEST_F(AnswerAgainTest, IsAHitThatSaysWhatTheFirstAnswerSaid) {
  const v1::CreatePlanRequest request = RequestOf(TestSpec());
  EXPECT_FALSE(AnswerAgain(cache_, request, nullptr).has_value()) << "no caller has asked";
  const v1::Plan first = Create(request);
  v1::CreatePlanRequest other_id = request;
  other_id.set_request_id("another");
  const auto again = AnswerAgain(cache_, other_id, nullptr);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->planning().cache(), v1::Planning::HIT);
  EXPECT_EQ(again->plan().name(), first.name());
  EXPECT_EQ(again->plan().summary().SerializeAsString(), first.summary().SerializeAsString());
  EXPECT_EQ(again->plan().hits(), 1);
  EXPECT_EQ(cache_.stats().memory().hits(), 1);
}

TEST_F(AnswerAgainTest, OtherWordsTakeTheLongWay) {
  Create(RequestOf(TestSpec()));
  const v1::CreatePlanRequest other = RequestOf(TestSpec({70, 30, 50, 10}, "other-"));
  EXPECT_FALSE(AnswerAgain(cache_, other, nullptr).has_value());
  const v1::Plan plan = Create(other);
  EXPECT_EQ(AnswerAgain(cache_, other, nullptr)->plan().name(), plan.name());
}

TEST_F(AnswerAgainTest, NotWhenThePlanIsGone) {
  const v1::CreatePlanRequest request = RequestOf(TestSpec());
  const v1::Plan plan = Create(request);
  ASSERT_TRUE(cache_.Delete(plan.name()).ok());
  EXPECT_FALSE(AnswerAgain(cache_, request, nullptr).has_value());
}

TEST_F(AnswerAgainTest, NorForWhatWasOnlyTried) {
  v1::CreatePlanRequest request = RequestOf(TestSpec());
  request.set_validate_only(true);
  Create(request);
  EXPECT_FALSE(AnswerAgain(cache_, request, nullptr).has_value());
}

// The same words mean something else when other workers are there.
TEST_F(AnswerAgainTest, NotWhenTheRegistryChanged) {
  const v1::PlanSpec spelled_out = TestSpec();
  v1::CreatePlanRequest request = RequestOf(spelled_out);
  request.mutable_spec()->clear_topology();
  Topology workers;
  for (const v1::Host& host : spelled_out.topology().hosts()) {
    workers.hosts.push_back({.name = host.name(),
                             .device_ids = {host.device_ids().begin(), host.device_ids().end()},
                             .nic_bytes_per_second = host.nic_bytes_per_second(),
                             .nics = host.nics(),
                             .fabric_bytes_per_second = host.fabric_bytes_per_second()});
  }
  const v1::Plan plan = Create(request, &workers);
  EXPECT_EQ(AnswerAgain(cache_, request, &workers)->plan().name(), plan.name());
  Topology changed = workers;
  std::swap(changed.hosts[0].device_ids, changed.hosts[1].device_ids);
  EXPECT_FALSE(AnswerAgain(cache_, request, &changed).has_value());
  EXPECT_FALSE(AnswerAgain(cache_, request, nullptr).has_value());
}

}  // namespace
}  // namespace remesh::server
