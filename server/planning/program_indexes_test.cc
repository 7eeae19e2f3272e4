// SPDX-License-Identifier: Apache-2.0
#include "server/planning/program_indexes.h"

#include <gtest/gtest.h>

#include <vector>

#include "server/questions/create_plan.h"
#include "server/questions/planning_test_spec.h"

namespace remesh::server {
namespace {

using Plan = std::shared_ptr<const CachedPlan>;

// Another one each time.
Plan NewPlan() {
  static const CachedPlan plan = [] {
    v1::CreatePlanRequest request;
    *request.mutable_spec() = TestSpec();
    const auto question = QuestionOf(request, nullptr, planner::Budget::Unlimited());
    return *ComputePlan(question->canonicalized.canonical, planner::Budget::Unlimited());
  }();
  return std::make_shared<const CachedPlan>(plan);
}

TEST(ProgramIndexesTest, APlanHasOneIndexAsLongAsFewOthersAreAskedFor) {
  ProgramIndexes indexes;
  const std::vector<Plan> plans = {NewPlan(), NewPlan(), NewPlan(), NewPlan(), NewPlan()};
  const auto first = indexes.Of(plans[0]);
  EXPECT_NE(indexes.Of(plans[1]), first);
  EXPECT_EQ(indexes.Of(plans[0]), first);
  for (const Plan& plan : plans) indexes.Of(plan);
  EXPECT_NE(indexes.Of(plans[0]), first) << "it was the oldest of one too many";
}

TEST(ProgramIndexesTest, NoPlanIsKeptAndNoIndexOfAPlanThatIsGone) {
  ProgramIndexes indexes;
  Plan plan = NewPlan();
  const std::weak_ptr<const planner::ProgramIndex> index = indexes.Of(plan);
  EXPECT_EQ(plan.use_count(), 1);
  plan = NewPlan();
  EXPECT_FALSE(index.expired());
  indexes.Of(plan);
  EXPECT_TRUE(index.expired());
}

}  // namespace
}  // namespace remesh::server
