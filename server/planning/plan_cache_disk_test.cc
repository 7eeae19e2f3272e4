// SPDX-License-Identifier: Apache-2.0
// The plan cache in front of its store: what a restart finds again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "server/planning/plan_moves.h"
#include "server/planning/planning_test_spec.h"

namespace remesh {
namespace {

constexpr int64_t kPlenty = 1 << 30;

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
    auto store = PlanStore::Open({.path = (directory_ / "plans.db").string()});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    cache_ = std::make_unique<PlanCache>(kPlenty, store_.get());
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

  std::filesystem::path directory_;
  std::unique_ptr<PlanStore> store_;
  std::unique_ptr<PlanCache> cache_;
};

// What an answer says of the plan, whenever and from wherever it came.
std::string Lasting(v1::Plan plan) {
  plan.clear_create_time();
  plan.clear_hits();
  plan.clear_cached_bytes();
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

TEST_F(PlanCacheDiskTest, OtherDevicesOfTheSameStructureFindThePlanOnDisk) {
  const auto miss = Create(TestSpec());
  Restart();
  const auto disk = Create(TestSpec({70, 30, 50, 10}, "other-"));
  EXPECT_EQ(disk.plan().fingerprint(), miss.plan().fingerprint());
  EXPECT_EQ(cache_->stats().computations(), 0);
}

TEST_F(PlanCacheDiskTest, PinsSurviveAndUnpinnedPlansStayNameless) {
  const std::string pinned = Create(TestSpec()).plan().name();
  const std::string other = Create(TestSpec({70, 30, 50, 10}, "other-")).plan().name();
  ASSERT_TRUE(cache_->SetPinned(pinned, true).ok());
  Restart();
  ASSERT_TRUE(cache_->Peek(pinned).ok());
  EXPECT_TRUE(cache_->Peek(pinned)->pinned);
  EXPECT_FALSE(cache_->Peek(other).ok());
  ASSERT_TRUE(cache_->SetPinned(pinned, false).ok());
  Restart();
  EXPECT_FALSE(cache_->Peek(pinned).ok());
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
}  // namespace remesh
