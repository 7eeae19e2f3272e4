// SPDX-License-Identifier: Apache-2.0
// The plan cache in front of its store: what a restart finds again.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "proto/convert/plan_spec.h"
#include "server/cache/plan_store.h"
#include "server/questions/create_plan.h"
#include "server/questions/planning_test_spec.h"

namespace remesh::server {
namespace {

class PlanCacheDiskTest : public ::testing::Test {
 protected:
  PlanCacheDiskTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "remesh-plans-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    Restart();
  }
  ~PlanCacheDiskTest() override {
    cache_ = nullptr;
    store_ = nullptr;
    std::filesystem::remove_all(directory_);
  }

  // As a server does.
  void Restart() {
    cache_ = nullptr;
    store_ = nullptr;
    auto store = PlanStore::Open({.path = (directory_ / "plans.db").string(), .limits = limits_});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    cache_ = std::make_unique<PlanCache>(kPlenty, *store_);
    RestorePins(*cache_, *store_);
  }

  v1::CreatePlanResponse Create(const v1::PlanSpec& spec, bool validate_only = false) {
    v1::CreatePlanRequest request;
    *request.mutable_spec() = spec;
    request.set_validate_only(validate_only);
    const auto response = CreatePlan(*cache_, request, nullptr);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::CreatePlanResponse();
  }

  // Makes the plan for so many rows ahead for "caller". Returns its name.
  std::string MakeAhead(int64_t rows) {
    v1::CreatePlanRequest request;
    *request.mutable_spec() = TestSpec();
    request.mutable_spec()->mutable_arrays(0)->set_shape(0, rows);
    planner::Budget& budget = planner::Budget::Unlimited();
    auto question = QuestionOf(request, nullptr, budget);
    EXPECT_TRUE(question.ok()) << question.status();
    question->access = Access::kAhead;
    question->ahead_of = "caller";
    const auto answer = cache_->FindOrCompute(
        *question, [&](const planner::CanonicalRequest& one) { return ComputePlan(one, budget); });
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer->plan->name;
  }

  std::filesystem::path directory_;
  PlanFile::Limits limits_ = PlanStore::Options().limits;
  std::unique_ptr<PlanStore> store_;
  std::unique_ptr<PlanCache> cache_;
};

// The parts of an answer that must not depend on when and where the plan was found.
std::string Lasting(v1::Plan plan) {
  plan.clear_create_time();
  plan.clear_hits();
  plan.clear_cached_bytes();
  plan.clear_last_use_time();
  return plan.DebugString();
}

TEST_F(PlanCacheDiskTest, TheFirstRequestAfterARestartIsAnsweredFromDisk) {
  const auto miss = Create(TestSpec());
  Restart();
  const auto disk = Create(TestSpec());
  EXPECT_EQ(v1::Planning::Cache_Name(disk.planning().cache()),
            v1::Planning::Cache_Name(v1::Planning::DISK));
  EXPECT_EQ(Lasting(disk.plan()), Lasting(miss.plan()));
  EXPECT_EQ(cache_->stats().computations(), 0);
  EXPECT_EQ(cache_->stats().disk().hits(), 1);
  Create(TestSpec());
  EXPECT_EQ(cache_->stats().memory().hits(), 1);
  EXPECT_EQ(cache_->stats().disk().hits(), 1);  // memory answers without the disk
}

TEST_F(PlanCacheDiskTest, APlanSaysForHowManyHostsCapacitiesAreAssumed) {
  v1::PlanSpec spec = TestSpec();
  spec.mutable_topology()->mutable_hosts(1)->set_capacities_assumed(true);
  const v1::Plan made = Create(spec).plan();
  EXPECT_EQ(made.hosts_assumed(), 1);
  Restart();
  const absl::StatusOr<ListedPlan> found = cache_->Find(made.name());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(ToProto(*found).hosts_assumed(), 1);
}

TEST_F(PlanCacheDiskTest, WhatIsMadeAheadDrivesOutNothingElseAndStaysOnceItIsAskedFor) {
  limits_.max_entries = 4;
  Restart();
  const std::string asked = Create(TestSpec()).plan().name();
  const std::string first = MakeAhead(12);
  const std::string wanted = MakeAhead(16);
  v1::PlanSpec spec = TestSpec();
  spec.mutable_arrays(0)->set_shape(0, 16);
  EXPECT_EQ(Create(spec).planning().cache(), v1::Planning::HIT);
  // Writes that the plan was asked for.
  ASSERT_TRUE(cache_->Flush(/*memory=*/true, /*disk=*/false).ok());
  for (int64_t rows = 20; rows <= 60; rows += 4) MakeAhead(rows);
  store_->Flush();
  EXPECT_TRUE(store_->FindName(asked).has_value());
  EXPECT_TRUE(store_->FindName(wanted).has_value());
  EXPECT_FALSE(store_->FindName(first).has_value());
}

TEST_F(PlanCacheDiskTest, OtherDevicesOfTheSameStructureFindThePlanOnDisk) {
  const auto miss = Create(TestSpec());
  Restart();
  const auto disk = Create(TestSpec({70, 30, 50, 10}, "other-"));
  EXPECT_EQ(disk.plan().fingerprint(), miss.plan().fingerprint());
  EXPECT_EQ(cache_->stats().computations(), 0);
}

TEST_F(PlanCacheDiskTest, PinsSurvive) {
  const std::string pinned = Create(TestSpec()).plan().name();
  ASSERT_TRUE(cache_->SetPinned(pinned, true).ok());
  Restart();
  ASSERT_TRUE(cache_->Find(pinned, Access::kPeek).ok());
  EXPECT_TRUE(cache_->Find(pinned, Access::kPeek)->facts.pinned);
  ASSERT_TRUE(cache_->SetPinned(pinned, false).ok());
  Restart();
  EXPECT_FALSE(cache_->Find(pinned, Access::kPeek).ok());
  EXPECT_FALSE(cache_->Find(pinned)->facts.pinned);
}

TEST_F(PlanCacheDiskTest, APinIsOnDiskBeforeItIsAnswered) {
  const std::string name = Create(TestSpec()).plan().name();
  ASSERT_TRUE(cache_->SetPinned(name, true).ok());
  ASSERT_EQ(store_->PinnedNames().size(), 1u);  // without waiting for anything
  ASSERT_TRUE(cache_->SetPinned(name, false).ok());
  EXPECT_TRUE(store_->PinnedNames().empty());
}

TEST_F(PlanCacheDiskTest, NamesAreFoundAfterARestartWithWhatWasKnownOfThem) {
  const v1::Plan made = Create(TestSpec()).plan();
  const std::string other = Create(TestSpec({70, 30, 50, 10}, "other-")).plan().name();
  Create(TestSpec());
  ASSERT_TRUE(cache_->Find(made.name(), Access::kUse, Reach::kDisk, "jobs/a/states/s").ok());
  Restart();
  const auto found = cache_->Find(made.name());
  ASSERT_TRUE(found.ok()) << found.status();
  const v1::Plan plan = ToProto(*found);
  EXPECT_EQ(plan.hits(), 2);
  EXPECT_EQ(plan.create_time().DebugString(), made.create_time().DebugString());
  ASSERT_EQ(plan.states_size(), 1);
  EXPECT_EQ(plan.states(0), "jobs/a/states/s");
  EXPECT_EQ(plan.summary().DebugString(), made.summary().DebugString());
  EXPECT_EQ(cache_->stats().computations(), 0);
  EXPECT_EQ(cache_->stats().disk().hits(), 1);
  EXPECT_EQ(cache_->stats().memory().hits(), 0);
  EXPECT_TRUE(cache_->Find(other).ok());  // bound to the plan that is in memory now
  EXPECT_EQ(cache_->stats().disk().hits(), 1);
}

TEST_F(PlanCacheDiskTest, ANameWhosePlanIsGoneIsNoName) {
  const std::string name = Create(TestSpec()).plan().name();
  store_->Flush();
  cache_ = nullptr;
  store_ = nullptr;
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((directory_ / "plans.db").c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, "DELETE FROM plans", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  Restart();
  EXPECT_TRUE(absl::IsNotFound(cache_->Find(name).status()));
  EXPECT_FALSE(store_->FindName(name).has_value());
}

// "The cached path never touches disk or the planner."
TEST_F(PlanCacheDiskTest, WhatMemoryAnswersTouchesNeitherDiskNorPlanner) {
  const auto request = proto::ToReshardRequest(TestSpec(), nullptr);
  PlanCache::Question question;
  question.canonicalized = *planner::Canonicalize(*request);
  question.spec = std::make_shared<const std::string>(TestSpec().SerializeAsString());
  const auto compute = [](const planner::CanonicalRequest& request) {
    return ComputePlan(request);
  };
  ASSERT_TRUE(cache_->FindOrCompute(question, compute).ok());
  store_->Flush();
  const int64_t reads = store_->stats().reads;
  const auto never = [](const planner::CanonicalRequest&) -> absl::StatusOr<CachedPlan> {
    ADD_FAILURE() << "planned";
    return absl::InternalError("");
  };
  for (int i = 0; i < 100; ++i) {
    const auto answer = cache_->FindOrCompute(question, never);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->cache, v1::Planning::HIT);
    EXPECT_TRUE(cache_->Find(answer->plan->name).ok());
    EXPECT_TRUE(cache_->Find(answer->plan->name, Access::kPeek).ok());
  }
  const auto other = proto::ToReshardRequest(TestSpec({70, 30, 50, 10}, "other-"), nullptr);
  question.canonicalized = *planner::Canonicalize(*other);
  EXPECT_EQ(cache_->FindOrCompute(question, never)->cache, v1::Planning::ISOMORPHIC);
  EXPECT_EQ(store_->stats().reads, reads);
}

TEST_F(PlanCacheDiskTest, FlushedMemoryIsFoundOnDiskAndAFlushedDiskIsEmpty) {
  const std::string name = Create(TestSpec()).plan().name();
  v1::PlanSpec wide = TestSpec();
  wide.mutable_arrays(0)->set_shape(0, 16);
  const std::string pinned = Create(wide).plan().name();
  ASSERT_TRUE(cache_->SetPinned(pinned, true).ok());
  auto flushed = cache_->Flush(/*memory=*/true, /*disk=*/false);
  ASSERT_TRUE(flushed.ok()) << flushed.status();
  EXPECT_EQ(flushed->memory(), 1);
  EXPECT_EQ(flushed->disk(), 0);
  EXPECT_EQ(flushed->kept(), 1);
  EXPECT_FALSE(cache_->Find(name, Access::kPeek).ok());
  EXPECT_EQ(Create(TestSpec()).planning().cache(), v1::Planning::DISK);
  flushed = cache_->Flush(/*memory=*/true, /*disk=*/true);
  EXPECT_EQ(flushed->memory(), 1);
  EXPECT_EQ(flushed->disk(), 1);
  EXPECT_TRUE(cache_->Find(pinned, Access::kPeek).ok());
  EXPECT_EQ(Create(TestSpec()).planning().cache(), v1::Planning::MISS);
  EXPECT_EQ(cache_->stats().memory().evictions().flushed(), 2);
  EXPECT_EQ(cache_->stats().disk().evictions().flushed(), 1);
}

TEST_F(PlanCacheDiskTest, DeletedPlansAndTrialsAreNotOnDisk) {
  const std::string name = Create(TestSpec()).plan().name();
  ASSERT_TRUE(cache_->Delete(name).ok());
  Create(TestSpec(), /*validate_only=*/true);
  Restart();
  Create(TestSpec());
  EXPECT_EQ(cache_->stats().computations(), 1);
}

TEST_F(PlanCacheDiskTest, AThousandEqualColdRequestsAreOnePlanning) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 1000; ++i) threads.emplace_back([&] { Create(TestSpec()); });
  for (std::thread& thread : threads) thread.join();
  const v1::CacheStats stats = cache_->stats();
  EXPECT_EQ(stats.computations(), 1);
  EXPECT_EQ(stats.memory().hits(), 999);
  EXPECT_EQ(stats.disk().misses(), 1);
}

}  // namespace
}  // namespace remesh::server
