// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_cache.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "server/questions/create_plan.h"
#include "server/questions/planning_test_spec.h"

namespace remesh::server {
namespace {

absl::StatusOr<v1::CreatePlanResponse> Create(PlanCache& cache, const v1::PlanSpec& spec,
                                              bool validate_only = false) {
  v1::CreatePlanRequest request;
  *request.mutable_spec() = spec;
  request.set_validate_only(validate_only);
  return CreatePlan(cache, request, nullptr);
}

v1::PlanSpec SpecOfShape(int64_t rows) {
  v1::PlanSpec spec = TestSpec();
  spec.mutable_arrays(0)->set_shape(0, rows);
  return spec;
}

TEST(PlanCacheTest, MissThenHitThenIsomorphic) {
  PlanCache cache(kPlenty);
  const auto miss = Create(cache, TestSpec());
  ASSERT_TRUE(miss.ok()) << miss.status();
  EXPECT_EQ(miss->planning().cache(), v1::Planning::MISS);
  const auto hit = Create(cache, TestSpec());
  EXPECT_EQ(hit->planning().cache(), v1::Planning::HIT);
  EXPECT_EQ(hit->plan().name(), miss->plan().name());
  const auto renamed = Create(cache, TestSpec({70, 30, 50, 10}, "other-"));
  EXPECT_EQ(renamed->planning().cache(), v1::Planning::ISOMORPHIC);
  EXPECT_EQ(renamed->plan().fingerprint(), miss->plan().fingerprint());
  EXPECT_NE(renamed->plan().name(), miss->plan().name());
  const v1::CacheStats stats = cache.stats();
  EXPECT_EQ(stats.computations(), 1);
  EXPECT_EQ(stats.memory().hits(), 1);
  EXPECT_EQ(stats.memory().isomorphic_hits(), 1);
  EXPECT_EQ(stats.memory().entries(), 2);
}

// Regression: a plan larger than the cache was evicted at once, and so was read from disk and
// checked again by each start of its move.
TEST(PlanCacheTest, ThePlanUsedLastStaysHoweverLarge) {
  PlanCache cache(/*max_bytes=*/1);
  const std::string first = Create(cache, SpecOfShape(8))->plan().name();
  cache.Tick();
  EXPECT_TRUE(cache.Find(first).ok());
  const std::string second = Create(cache, SpecOfShape(12))->plan().name();
  cache.Tick();
  EXPECT_FALSE(cache.Find(first).ok());
  EXPECT_TRUE(cache.Find(second).ok());
}

TEST(PlanCacheTest, TheLeastRecentlyUsedGoFirstButNeverPinnedOnes) {
  PlanCache probe(kPlenty);
  ASSERT_TRUE(Create(probe, SpecOfShape(8)).ok());
  PlanCache cache(probe.stats().memory().bytes() * 5 / 2);  // two fit
  const std::string pinned = Create(cache, SpecOfShape(8))->plan().name();
  ASSERT_TRUE(cache.SetPinned(pinned, true).ok());
  const std::string second = Create(cache, SpecOfShape(12))->plan().name();
  const std::string third = Create(cache, SpecOfShape(16))->plan().name();
  EXPECT_TRUE(cache.Find(pinned).ok());
  EXPECT_EQ(GetErrorInfo(cache.Find(second).status()).reason, "PLAN_NOT_FOUND");
  EXPECT_TRUE(cache.Find(third).ok());
  EXPECT_EQ(cache.stats().memory().evictions().bytes(), 1);
  EXPECT_LE(cache.stats().memory().bytes(), cache.stats().memory().max_bytes());
  EXPECT_EQ(GetErrorInfo(cache.Delete(pinned)).reason, "PLAN_PINNED");
  ASSERT_TRUE(cache.SetPinned(pinned, false).ok());
  EXPECT_TRUE(cache.Delete(pinned).ok());
  EXPECT_TRUE(cache.Delete(third).ok());
  EXPECT_EQ(cache.stats().memory().bytes(), 0);
}

// The name of the plan for `rows`, made ahead for `caller`.
std::string MakeAhead(PlanCache& cache, int64_t rows, const std::string& caller) {
  v1::CreatePlanRequest request;
  *request.mutable_spec() = SpecOfShape(rows);
  planner::Budget& budget = planner::Budget::Unlimited();
  auto question = QuestionOf(request, nullptr, budget);
  EXPECT_TRUE(question.ok()) << question.status();
  question->access = Access::kAhead;
  question->ahead_of = caller;
  const auto answer = cache.FindOrCompute(
      *question, [&](const planner::CanonicalRequest& one) { return ComputePlan(one, budget); });
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer->plan->name;
}

// Regression: a caller who had many plans made ahead drove out what others had.
TEST(PlanCacheTest, PlansMadeAheadForOneCallerDriveOutEachOtherAndNothingElse) {
  PlanCache probe(kPlenty);
  ASSERT_TRUE(Create(probe, SpecOfShape(8)).ok());
  PlanCache cache(probe.stats().memory().bytes() * 17 / 2);  // eight fit
  const std::string asked = Create(cache, SpecOfShape(8))->plan().name();
  const std::string other = MakeAhead(cache, 12, "b");
  const std::string first = MakeAhead(cache, 16, "a");
  const std::string wanted = MakeAhead(cache, 20, "a");
  EXPECT_EQ(Create(cache, SpecOfShape(20))->planning().cache(), v1::Planning::HIT);
  std::string last;
  for (int64_t rows = 24; rows < 24 + 4 * 20; rows += 4) last = MakeAhead(cache, rows, "a");
  for (const std::string& name : {asked, other, wanted, last}) {
    EXPECT_TRUE(cache.Find(name, Access::kPeek).ok()) << name;
  }
  EXPECT_FALSE(cache.Find(first, Access::kPeek).ok());
  // As long as no other caller needs it, all of memory is the caller's.
  EXPECT_EQ(cache.stats().memory().entries(), 8);
}

TEST(PlanCacheTest, APlanInUseStays) {
  PlanCache cache(1);
  const std::string name = Create(cache, SpecOfShape(8))->plan().name();
  ASSERT_TRUE(cache.Find(name, Access::kUse).ok());
  ASSERT_TRUE(Create(cache, SpecOfShape(12)).ok());
  EXPECT_TRUE(cache.Find(name, Access::kPeek).ok());
  EXPECT_EQ(GetErrorInfo(cache.Delete(name)).reason, "PLAN_IN_USE");
  cache.EndUse(name);
  EXPECT_FALSE(cache.Find(name, Access::kPeek).ok());
}

TEST(PlanCacheTest, ValidateOnlyKeepsNothing) {
  PlanCache cache(kPlenty);
  const auto plan = Create(cache, TestSpec(), /*validate_only=*/true);
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(cache.Find(plan->plan().name()).ok());
  EXPECT_EQ(cache.stats().memory().bytes(), 0);
}

TEST(PlanCacheTest, EqualRequestsTogetherAreComputedOnce) {
  PlanCache cache(kPlenty);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(Create(cache, SpecOfShape(4096)).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.stats().computations(), 1);
  EXPECT_EQ(cache.stats().memory().hits(), 7);
}

TEST(PlanCacheTest, AFailureIsNotRememberedAndFreesThoseWhoWait) {
  PlanCache cache(kPlenty);
  v1::PlanSpec spec = TestSpec();
  spec.mutable_options()->set_memory_limit_bytes(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&] { EXPECT_EQ(GetErrorInfo(Create(cache, spec).status()).reason, "MEMORY_LIMIT"); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.stats().memory().entries(), 0);
}

TEST(PlanCacheTest, LimitsOfEntriesAndAgeHold) {
  absl::Time now = absl::FromUnixSeconds(1000);
  PlanCache cache(PlanCache::Options{
      .limits = {.max_bytes = kPlenty, .max_entries = 2, .max_age = absl::Seconds(60)},
      .now = [&] { return now; }});
  const std::string first = Create(cache, SpecOfShape(8))->plan().name();
  now += absl::Seconds(40);
  const std::string second = Create(cache, SpecOfShape(12))->plan().name();
  const std::string third = Create(cache, SpecOfShape(16))->plan().name();
  EXPECT_FALSE(cache.Find(first, Access::kPeek).ok());
  EXPECT_EQ(cache.stats().memory().evictions().entries(), 1);
  now += absl::Seconds(40);
  ASSERT_TRUE(cache.Find(third).ok());
  now += absl::Seconds(40);
  cache.Tick();
  EXPECT_FALSE(cache.Find(second, Access::kPeek).ok());
  EXPECT_TRUE(cache.Find(third, Access::kPeek).ok());
  EXPECT_EQ(cache.stats().memory().evictions().age(), 1);
}

TEST(PlanCacheTest, CountsWhatAnswersSaved) {
  PlanCache cache(kPlenty);
  const double seconds = Create(cache, SpecOfShape(8))->plan().compute_seconds();
  EXPECT_EQ(cache.stats().compute_seconds(), seconds);
  EXPECT_EQ(cache.stats().memory().compute_seconds_saved(), 0);
  EXPECT_TRUE(Create(cache, SpecOfShape(8)).ok());
  EXPECT_TRUE(Create(cache, SpecOfShape(8)).ok());
  EXPECT_DOUBLE_EQ(cache.stats().memory().compute_seconds_saved(), 2 * seconds);
  EXPECT_EQ(cache.stats().memory().misses(), 1);
}

}  // namespace
}  // namespace remesh::server
