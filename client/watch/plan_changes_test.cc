// SPDX-License-Identifier: Apache-2.0
#include "client/watch/plan_changes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace remesh::client {
namespace {

v1::Plan Named(const std::string& name) {
  v1::Plan plan;
  plan.set_name(name);
  plan.set_tier(v1::MEMORY);
  return plan;
}

// The lines about the next list.
std::vector<std::string> Lines(PlanChanges& changes, const std::vector<v1::Plan>& plans) {
  std::vector<std::string> lines;
  for (const PlanChange& change : changes.Next({plans.begin(), plans.end()})) {
    lines.push_back(LineOf(change));
  }
  return lines;
}

using Expected = std::vector<std::string>;

TEST(PlanChangesTest, TheFirstListExistsAndLaterOnesAreCompared) {
  PlanChanges changes;
  const v1::Plan a = Named("plans/a"), b = Named("plans/b"), c = Named("plans/c");
  EXPECT_EQ(Lines(changes, {a, b}), Expected({"EXISTING plans/a", "EXISTING plans/b"}));
  EXPECT_EQ(Lines(changes, {a, b}), Expected());
  EXPECT_EQ(Lines(changes, {c, b}), Expected({"NEW plans/c", "GONE plans/a"}));
  EXPECT_EQ(Lines(changes, {}), Expected({"GONE plans/b", "GONE plans/c"}));
  EXPECT_EQ(Lines(changes, {a}), Expected({"NEW plans/a"}));
}

TEST(PlanChangesTest, AnEmptyFirstListMakesLaterPlansNew) {
  PlanChanges changes;
  EXPECT_EQ(Lines(changes, {}), Expected());
  EXPECT_EQ(Lines(changes, {Named("plans/a")}), Expected({"NEW plans/a"}));
}

TEST(PlanChangesTest, PinsTiersAndStatesAreChangesAndUseIsNone) {
  PlanChanges changes;
  v1::Plan plan = Named("plans/a");
  Lines(changes, {plan});
  plan.set_hits(7);
  plan.set_uses(1);
  plan.mutable_last_use_time()->set_seconds(7);
  EXPECT_EQ(Lines(changes, {plan}), Expected());
  plan.set_pinned(true);
  plan.set_tier(v1::DISK);
  EXPECT_EQ(Lines(changes, {plan}),
            Expected({"CHANGED plans/a: pinned no -> yes, tier memory -> disk"}));
  plan.add_states("jobs/j/states/s");
  EXPECT_EQ(Lines(changes, {plan}), Expected({"CHANGED plans/a: states none -> jobs/j/states/s"}));
  plan.mutable_create_time()->set_seconds(9);
  EXPECT_EQ(Lines(changes, {plan}), Expected({"CHANGED plans/a: made again"}));
}

TEST(PlanChangesTest, APlanOnTwoPagesIsOnePlan) {
  PlanChanges changes;
  const v1::Plan plan = Named("plans/a");
  EXPECT_EQ(Lines(changes, {plan, plan}), Expected({"EXISTING plans/a"}));
}

}  // namespace
}  // namespace remesh::client
