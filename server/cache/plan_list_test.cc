// SPDX-License-Identifier: Apache-2.0
// Lists of plans over both tiers: order, pages, filters.
#include "server/cache/plan_list.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "absl/time/clock.h"
#include "server/cache/plan_filter.h"
#include "server/cache/plan_store.h"
#include "server/questions/create_plan.h"
#include "server/questions/planning_test_spec.h"

namespace remesh::server {
namespace {

class PlanListTest : public ::testing::Test {
 protected:
  PlanListTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "remesh-list-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    Restart(kPlenty);
  }
  ~PlanListTest() override {
    cache_ = nullptr;
    store_ = nullptr;
    std::filesystem::remove_all(directory_);
  }

  void Restart(int64_t max_bytes) {
    cache_ = nullptr;
    store_ = nullptr;
    store_ = *PlanStore::Open({.path = (directory_ / "plans.db").string()});
    cache_ = std::make_unique<PlanCache>(
        PlanCache::Options{.limits = {.max_bytes = max_bytes},
                           .disk = store_ != nullptr ? store_.get() : &NoDisk(),
                           .now = [this] { return now_; }});
  }

  std::string Create(int64_t rows) {
    v1::CreatePlanRequest request;
    *request.mutable_spec() = TestSpec();
    request.mutable_spec()->mutable_arrays(0)->set_shape(0, rows);
    now_ += absl::Seconds(1);
    return CreatePlan(*cache_, request, nullptr)->plan().name();
  }

  // The names of all pages.
  std::vector<std::string> List(const v1::PlanFilter& filter = {}, size_t page_size = 1000) {
    std::vector<std::string> names;
    PlanCache::Place place;
    while (true) {
      const PlanPage page = PageOfPlans(*cache_, page_size, place, filter, v1::SUMMARY);
      EXPECT_LE(page.plans.size(), page_size);
      for (const v1::Plan& plan : page.plans) {
        names.push_back(plan.name());
        EXPECT_GT(plan.summary().total_bytes(), 0);
        EXPECT_EQ(plan.source_devices(), 4);
        EXPECT_EQ(plan.target_hosts(), 2);
        EXPECT_GT(plan.cached_bytes(), 0);
      }
      if (!page.next) return names;
      place = *page.next;
    }
  }

  // Of today: the disk drops what is old.
  const int64_t start_ = absl::ToUnixSeconds(absl::Now());
  absl::Time now_ = absl::FromUnixSeconds(start_);
  std::filesystem::path directory_;
  std::unique_ptr<PlanStore> store_;
  std::unique_ptr<PlanCache> cache_;
};

TEST_F(PlanListTest, NewestFirstInPagesOverBothTiers) {
  std::vector<std::string> newest_first;
  for (int i = 0; i < 150; ++i) {
    newest_first.insert(newest_first.begin(), Create(8 + i));
    if (i % 32 == 0) store_->Flush();  // a disk that lags behind drops plans
  }
  store_->Flush();
  for (const size_t size : {1, 7, 64, 150, 1000}) EXPECT_EQ(List({}, size), newest_first);
  Restart(kPlenty);  // all on disk
  EXPECT_EQ(List({}, 7), newest_first);
  for (int i = 0; i < 150; i += 2) ASSERT_TRUE(cache_->Find(newest_first[i]).ok());
  EXPECT_EQ(List({}, 7), newest_first);  // half of them in memory too
  v1::PlanFilter filter;
  filter.set_tier(v1::MEMORY);
  EXPECT_EQ(List(filter, 10).size(), 75u);
  filter.set_tier(v1::DISK);
  EXPECT_EQ(List(filter, 10).size(), 75u);
}

// Regression: an entry in memory had all its lists of boxes and devices, made under the cache's
// lock.
TEST_F(PlanListTest, EntriesAreSmallAndEqualInBothTiers) {
  v1::CreatePlanRequest request;
  *request.mutable_spec() = TestSpec();
  request.mutable_spec()->mutable_options()->set_free_target_order(true);
  ASSERT_GT(CreatePlan(*cache_, request, nullptr)->plan().target_device_lists_size(), 0);
  const PlanPage memory = PageOfPlans(*cache_, 1, {}, {}, v1::SUMMARY);
  ASSERT_EQ(memory.plans.size(), 1u);
  EXPECT_EQ(memory.plans[0].tier(), v1::MEMORY);
  EXPECT_EQ(memory.plans[0].target_device_lists_size(), 0);
  store_->Flush();
  Restart(kPlenty);
  const PlanPage disk = PageOfPlans(*cache_, 1, {}, {}, v1::SUMMARY);
  ASSERT_EQ(disk.plans.size(), 1u);
  EXPECT_EQ(disk.plans[0].tier(), v1::DISK);
  EXPECT_EQ(disk.plans[0].summary().SerializeAsString(),
            memory.plans[0].summary().SerializeAsString());
}

TEST_F(PlanListTest, APageEndsWhenItHasManyBytes) {
  for (int i = 0; i < 20; ++i) Create(8 + i);
  PlanCache::Place place;
  size_t seen = 0, pages = 0;
  for (bool more = true; more; ++pages) {
    const PlanPage page = PageOfPlans(*cache_, 1000, place, {}, v1::SUMMARY, /*max_bytes=*/1000);
    EXPECT_LT(page.plans.size(), 10u);
    seen += page.plans.size();
    more = page.next.has_value();
    if (more) place = *page.next;
  }
  EXPECT_EQ(seen, 20u);
  EXPECT_GT(pages, 2u);
}

TEST_F(PlanListTest, UseBetweenPagesNeitherHidesNorRepeats) {
  std::set<std::string> all;
  for (int i = 0; i < 20; ++i) all.insert(Create(8 + i));
  std::multiset<std::string> seen;
  PlanCache::Place place;
  while (true) {
    const PlanPage page = PageOfPlans(*cache_, 3, place, {}, v1::BASIC);
    for (const v1::Plan& plan : page.plans) seen.insert(plan.name());
    if (!page.next) break;
    place = *page.next;
    for (const std::string& name : all) ASSERT_TRUE(cache_->Find(name).ok());
    Create(1000 + static_cast<int64_t>(seen.size()));  // newer: not seen
  }
  EXPECT_EQ(seen, std::multiset<std::string>(all.begin(), all.end()));
}

TEST_F(PlanListTest, FiltersChooseByWhatIsKnown) {
  const std::string first = Create(8);
  const std::string second = Create(12);
  const std::string third = Create(16);
  ASSERT_TRUE(cache_->Find(second, Access::kUse, Reach::kDisk, "jobs/a/states/s").ok());
  ASSERT_TRUE(cache_->SetPinned(third, true).ok());
  using Names = std::vector<std::string>;
  v1::PlanFilter filter;
  filter.set_state("jobs/a/states/s");
  EXPECT_EQ(List(filter), Names{second});
  filter.Clear();
  filter.set_pinned(true);
  EXPECT_EQ(List(filter), Names{third});
  filter.set_pinned(false);
  EXPECT_EQ(List(filter), (Names{second, first}));
  filter.Clear();
  filter.mutable_hits()->set_min(1);
  EXPECT_EQ(List(filter), Names{second});
  filter.mutable_hits()->Clear();
  filter.mutable_hits()->set_max(0);
  EXPECT_EQ(List(filter), (Names{third, first}));
  filter.Clear();
  filter.mutable_created()->mutable_after()->set_seconds(start_ + 2);
  filter.mutable_created()->mutable_before()->set_seconds(start_ + 3);
  EXPECT_EQ(List(filter), Names{second});
  filter.Clear();
  filter.mutable_source_devices()->set_min(4);
  filter.mutable_source_devices()->set_max(4);
  EXPECT_EQ(List(filter).size(), 3u);
  filter.mutable_source_devices()->set_min(5);
  filter.mutable_source_devices()->set_max(8);
  EXPECT_TRUE(List(filter).empty());
  filter.Clear();
  filter.mutable_target_hosts()->set_max(1);
  EXPECT_TRUE(List(filter).empty());
  filter.Clear();
  filter.set_fingerprint_prefix(first.substr(6, 20));
  EXPECT_EQ(List(filter), Names{first});
}

}  // namespace
}  // namespace remesh::server
