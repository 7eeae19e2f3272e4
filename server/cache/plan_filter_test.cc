// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_filter.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace remesh::server {
namespace {

std::string FieldOf(const v1::PlanFilter& filter) {
  const absl::Status status = ValidateFilter(filter);
  return status.ok() ? "" : GetErrorInfo(status).metadata.at("field");
}

TEST(PlanFilterTest, AnEmptyFilterWantsEverything) {
  EXPECT_TRUE(ValidateFilter({}).ok());
  EXPECT_TRUE(Matches({}, {}));
}

TEST(PlanFilterTest, ContradictionsNameTheField) {
  v1::PlanFilter filter;
  filter.mutable_hits()->set_min(3);
  filter.mutable_hits()->set_max(2);
  EXPECT_EQ(FieldOf(filter), "hits.max");
  filter.mutable_hits()->set_min(-1);
  EXPECT_EQ(FieldOf(filter), "hits.min");
  filter.Clear();
  filter.mutable_created()->mutable_after()->set_seconds(5);
  filter.mutable_created()->mutable_before()->set_seconds(5);
  EXPECT_EQ(FieldOf(filter), "created.before");
  filter.mutable_created()->mutable_before()->set_nanos(-1);
  EXPECT_EQ(FieldOf(filter), "created.before.nanos");
  filter.Clear();
  filter.set_state("nonsense");
  EXPECT_EQ(FieldOf(filter), "state");
  filter.Clear();
  filter.set_tier(static_cast<v1::CacheTier>(9));
  EXPECT_EQ(FieldOf(filter), "tier");
}

TEST(PlanFilterTest, BoundsAreInclusiveAndTimesHalfOpen) {
  v1::Plan plan;
  plan.set_target_devices(8);
  plan.mutable_last_use_time()->set_seconds(10);
  v1::PlanFilter filter;
  filter.mutable_target_devices()->set_min(8);
  filter.mutable_target_devices()->set_max(8);
  EXPECT_TRUE(Matches(filter, plan));
  plan.set_target_devices(9);
  EXPECT_FALSE(Matches(filter, plan));
  filter.Clear();
  filter.mutable_used()->mutable_after()->set_seconds(10);
  EXPECT_TRUE(Matches(filter, plan));
  filter.mutable_used()->mutable_before()->set_seconds(11);
  EXPECT_TRUE(Matches(filter, plan));
  plan.mutable_last_use_time()->set_seconds(11);
  EXPECT_FALSE(Matches(filter, plan));
}

}  // namespace
}  // namespace remesh::server
