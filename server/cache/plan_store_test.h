// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "planner/make_plan.h"
#include "server/cache/plan_store.h"
#include "tests/testing/random_request.h"

namespace remesh::server {

inline std::shared_ptr<const CachedPlan> PlanOf(uint64_t seed) {
  auto request = planner::Canonicalize(testing::RandomRequest(seed, {.lost_devices = false}));
  EXPECT_TRUE(request.ok()) << request.status();
  auto plan = planner::MakePlan(request->canonical);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return std::make_shared<const CachedPlan>(CachedPlan{request->canonical, *plan, 1.5});
}

inline PlanFile::Name NameOf(const std::string& name, const std::string& fingerprint,
                             const std::string& spec = "spec") {
  return {.name = name,
          .fingerprint = fingerprint,
          .spec = spec,
          .about = "",
          .created = absl::FromUnixSeconds(1000),
          .used = absl::FromUnixSeconds(1'000'000),
          .hits = 3,
          .pinned = true};
}

class PlanStoreTest : public ::testing::Test {
 protected:
  PlanStoreTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "remesh-plans-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    options_.path = (directory_ / "plans.db").string();
    options_.now = [this] { return now_.load(); };
  }
  ~PlanStoreTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<PlanStore> Open() {
    auto store = PlanStore::Open(options_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // Runs SQL on the file while no store has it open.
  void Execute(const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(options_.path.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }

  std::filesystem::path directory_;
  PlanStore::Options options_;
  std::atomic<absl::Time> now_{absl::FromUnixSeconds(1'000'000)};
};

}  // namespace remesh::server
