// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/codec/plan_bytes.h"
#include "server/cache/plan_store_test.h"

namespace remesh::server {
namespace {

TEST_F(PlanStoreTest, PlansAndNamesOutliveTheStore) {
  const auto plan = PlanOf(1);
  const std::string& fingerprint = plan->request.fingerprint;
  {
    auto store = Open();
    EXPECT_FALSE(store->Find(plan->request).has_value());
    PlanFile::Name name = NameOf("plans/x", fingerprint);
    name.pinned = false;
    store->Store(plan, name);
    EXPECT_TRUE(store->Pin(NameOf("plans/y", fingerprint)).ok());
  }
  auto store = Open();
  const auto found = store->Find(plan->request);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->plan == plan->plan);
  EXPECT_EQ(found->digest,
            planner::DigestOfPlanBytes(planner::EncodePlan(plan->request, plan->plan)));
  EXPECT_EQ(found->compute_seconds, 1.5);
  const auto name = store->FindName("plans/x");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->spec, "spec");
  EXPECT_EQ(name->hits, 3);
  EXPECT_EQ(name->created, absl::FromUnixSeconds(1000));
  EXPECT_FALSE(name->pinned);
  ASSERT_EQ(store->PinnedNames().size(), 1u);
  EXPECT_EQ(store->PinnedNames()[0].name, "plans/y");
  EXPECT_TRUE(store->Unpin("plans/y").ok());
  EXPECT_TRUE(store->PinnedNames().empty());
  EXPECT_TRUE(*store->RemoveName("plans/y"));
  EXPECT_TRUE(store->Has(fingerprint));  // the other name needs it
  EXPECT_TRUE(*store->RemoveName("plans/x"));
  EXPECT_FALSE(*store->RemoveName("plans/x"));
  EXPECT_FALSE(store->Find(plan->request).has_value());
  EXPECT_EQ(store->stats().hits, 1);
  EXPECT_EQ(store->stats().held.plans, 0);
  EXPECT_EQ(store->stats().evictions.deleted, 2);
}

TEST_F(PlanStoreTest, NamesAreListedNewestFirst) {
  auto store = Open();
  for (int i = 0; i < 5; ++i) {
    PlanFile::Name name = NameOf("plans/" + std::to_string(i), "f");
    name.created = absl::FromUnixSeconds(i / 2);
    store->StoreName(name);
  }
  store->Flush();
  std::vector<std::string> seen;
  PlanFile::Name last;
  last.created = absl::InfiniteFuture();
  while (true) {
    const auto names = store->NamesAfter(last.created, last.name, 2);
    for (const auto& name : names) seen.push_back(name.name.substr(6));
    if (names.size() < 2) break;
    last = names.back();
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"4", "2", "3", "0", "1"}));
}

TEST_F(PlanStoreTest, NamesLeaveInTheOrderOfUseAndTheStoreTellsWhy) {
  options_.limits.max_entries = 2;
  auto store = Open();
  std::vector<std::string> left;
  store->SetOnEvicted([&](const std::vector<Evicted>& names) {
    for (const Evicted& one : names) {
      EXPECT_EQ(one.cause, EvictionCause::kEntries);
      left.push_back(one.name);
    }
  });
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    PlanFile::Name name =
        NameOf("plans/" + std::to_string(seed), PlanOf(seed)->request.fingerprint);
    name.pinned = false;
    name.used = now_.load();
    store->Store(PlanOf(seed), name);
    store->Flush();
    now_ = now_.load() + absl::Seconds(1);
  }
  store->SetOnEvicted(nullptr);
  EXPECT_EQ(left, std::vector<std::string>{"plans/1"});
  EXPECT_FALSE(store->FindName("plans/1").has_value());
  EXPECT_FALSE(store->Has(PlanOf(1)->request.fingerprint));
  EXPECT_TRUE(store->FindName("plans/3").has_value());
  EXPECT_EQ(store->stats().evictions.entries, 1);
  EXPECT_EQ(*store->RemoveAll({"plans/3"}), 1);
  EXPECT_TRUE(store->Has(PlanOf(3)->request.fingerprint));
  EXPECT_EQ(store->stats().held.names, 1);
  EXPECT_EQ(store->stats().evictions.flushed, 1);
}

// Regression: a caller who had many plans made ahead drove out what others had.
TEST_F(PlanStoreTest, PlansMadeAheadForOneCallerDriveOutEachOtherAndNothingElse) {
  options_.limits.max_entries = 8;
  auto store = Open();
  const auto store_for = [&](uint64_t seed, const std::string& caller) {
    PlanFile::Name name =
        NameOf("plans/" + std::to_string(seed), PlanOf(seed)->request.fingerprint);
    name.pinned = false;
    name.used = now_.load();
    name.hits = 0;
    name.ahead_of = caller;
    store->Store(PlanOf(seed), name);
    store->Flush();
    now_ = now_.load() + absl::Seconds(1);
    return name;
  };
  store_for(1, "");
  store_for(2, "b");
  PlanFile::Name wanted = store_for(3, "a");
  wanted.hits = 1;
  store->UpdateNames({wanted});
  for (uint64_t seed = 4; seed <= 20; ++seed) store_for(seed, "a");
  std::string left;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const bool named = store->FindName("plans/" + std::to_string(seed)).has_value();
    EXPECT_EQ(named, store->Has(PlanOf(seed)->request.fingerprint)) << seed;
    if (named) absl::StrAppend(&left, " ", seed);
  }
  EXPECT_EQ(left, " 1 2 3 16 17 18 19 20");
  // What the limits leave is anybody's who asks for it.
  for (uint64_t seed = 21; seed <= 24; ++seed) store_for(seed, "");
  EXPECT_TRUE(store->FindName("plans/2").has_value());
  EXPECT_FALSE(store->FindName("plans/1").has_value());
}

TEST_F(PlanStoreTest, TheOldestGoButNoPinnedOnes) {
  options_.limits.max_entries = 2;
  auto store = Open();
  ASSERT_TRUE(store->Pin(NameOf("plans/x", PlanOf(1)->request.fingerprint)).ok());
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    store->Store(PlanOf(seed));
    store->Flush();
    now_ = now_.load() + absl::Seconds(1);
  }
  EXPECT_TRUE(store->Find(PlanOf(1)->request).has_value());
  EXPECT_FALSE(store->Find(PlanOf(2)->request).has_value());
  EXPECT_FALSE(store->Find(PlanOf(3)->request).has_value());
  EXPECT_TRUE(store->Find(PlanOf(4)->request).has_value());
  EXPECT_EQ(store->stats().evictions.entries, 2);
  EXPECT_EQ(store->stats().held.plans, 2);
}

TEST_F(PlanStoreTest, PlansThatCannotWaitAreDroppedPinsAreNot) {
  options_.waiting_max = 0;
  {
    auto store = Open();
    store->Store(PlanOf(1));
    EXPECT_TRUE(store->Pin(NameOf("plans/x", "f")).ok());
    EXPECT_EQ(store->stats().errors, 1);
  }
  auto store = Open();
  EXPECT_FALSE(store->Find(PlanOf(1)->request).has_value());
  EXPECT_EQ(store->PinnedNames().size(), 1u);
}

size_t WarningsIn(const std::string& log) {
  size_t count = 0;
  for (size_t at = log.find("level=warning"); at != std::string::npos; ++count) {
    at = log.find("level=warning", at + 1);
  }
  return count;
}

// A limit on file size stands in for a full disk.
TEST_F(PlanStoreTest, AFullDiskIsOneWarningNotOneAPlan) {
  auto store = Open();
  store->Store(PlanOf(1));
  store->Flush();
  std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit full = {.rlim_cur = 8192, .rlim_max = before.rlim_max};
  const auto warnings = [&](uint64_t first, uint64_t last) {
    ::testing::internal::CaptureStderr();
    setrlimit(RLIMIT_FSIZE, &full);
    for (uint64_t seed = first; seed <= last; ++seed) store->Store(PlanOf(seed));
    store->Flush();
    setrlimit(RLIMIT_FSIZE, &before);
    return WarningsIn(::testing::internal::GetCapturedStderr());
  };
  EXPECT_EQ(warnings(2, 6), 1u);
  EXPECT_EQ(store->stats().errors, 5);
  EXPECT_EQ(warnings(7, 8), 0u) << "of the same episode";
  now_ = now_.load() + PlanStore::kBetweenEpisodes;
  EXPECT_EQ(warnings(9, 10), 1u) << "of the next one";
}

TEST_F(PlanStoreTest, LimitsOfBytesAndAgeHold) {
  auto store = Open();
  store->Store(PlanOf(2));
  store->Flush();
  options_.limits.max_bytes = store->stats().held.bytes;
  store = nullptr;
  store = Open();
  now_ = now_.load() + absl::Seconds(1);
  store->Store(PlanOf(2));  // again: replaced, not added
  store->Flush();
  EXPECT_EQ(store->stats().held.plans, 1);
  store->Store(PlanOf(1));
  store->Flush();
  EXPECT_LE(store->stats().held.bytes, options_.limits.max_bytes);
  EXPECT_FALSE(store->Find(PlanOf(2)->request).has_value());
  store = nullptr;
  now_ = now_.load() + options_.limits.max_age + absl::Seconds(1);
  store = Open();
  store->Flush();
  EXPECT_EQ(store->stats().held.plans, 0);
}

TEST_F(PlanStoreTest, IsOpenOnlyOnce) {
  auto store = Open();
  EXPECT_EQ(PlanStore::Open(options_).status().code(), absl::StatusCode::kFailedPrecondition);
  options_.path = (directory_ / "no" / "plans.db").string();
  EXPECT_EQ(PlanStore::Open(options_).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace remesh::server
