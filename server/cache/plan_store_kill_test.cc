// SPDX-License-Identifier: Apache-2.0
// Writers that are killed at work.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/cache/plan_store_test.h"

extern char** environ;

namespace remesh::server {
namespace {

constexpr char kPathVariable[] = "REMESH_TEST_PLAN_STORE";
constexpr uint64_t kSeeds = 30;

// The other process: writes until it is killed.
TEST(PlanStoreWriter, DISABLED_WritesUntilKilled) {
  const char* path = std::getenv(kPathVariable);
  ASSERT_NE(path, nullptr);
  auto store = PlanStore::Open({.path = path, .limits = {1 << 15, 20, absl::Hours(1)}});
  ASSERT_TRUE(store.ok()) << store.status();
  std::vector<std::shared_ptr<const CachedPlan>> plans;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) plans.push_back(PlanOf(seed));
  for (int i = 0; i < 1'000'000; ++i) {
    (*store)->Store(plans[i * 7 % kSeeds]);
    if (i % 50 == 49) (*store)->Flush();
  }
}

pid_t SpawnWriter(const std::string& path) {
  setenv(kPathVariable, path.c_str(), 1);
  std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string filter = "--gtest_filter=PlanStoreWriter.*";
  std::string disabled = "--gtest_also_run_disabled_tests";
  char* const arguments[] = {program.data(), filter.data(), disabled.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

int Rounds() {
  const char* text = std::getenv("REMESH_KILL_ROUNDS");
  return text == nullptr ? 30 : std::max(1, std::atoi(text));
}

// REMESH_KILL_ROUNDS=100 for the long run.
TEST_F(PlanStoreTest, AKilledWriterLeavesNothingWrongBehind) {
  std::vector<std::shared_ptr<const CachedPlan>> plans;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) plans.push_back(PlanOf(seed));
  std::mt19937 random(1);
  int64_t found = 0;
  for (int round = 0; round < Rounds(); ++round) {
    SCOPED_TRACE(round);
    const pid_t child = SpawnWriter(options_.path);
    for (int i = 0; i < 2000 && !std::filesystem::exists(options_.path + "-wal"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 150));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));  // it was at work, not done
    auto store = Open();
    ASSERT_NE(store, nullptr);
    for (const auto& plan : plans) {
      const auto answer = store->Find(plan->request);
      if (!answer.has_value()) continue;
      ++found;
      EXPECT_TRUE(answer->plan == plan->plan);
    }
    EXPECT_EQ(store->stats().evictions.corrupt, 0);
    EXPECT_EQ(store->stats().errors, 0);
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace remesh::server
