// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <zstd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "planner/plan/plan_bytes.h"
#include "tests/testing/random_request.h"
#include "tests/testing/resealed.h"

extern char** environ;

namespace remesh {
namespace {

std::shared_ptr<const CachedPlan> PlanOf(uint64_t seed) {
  auto request = Canonicalize(testing::RandomRequest(seed, {.lost_devices = false}));
  EXPECT_TRUE(request.ok()) << request.status();
  auto plan = MakePlan(request->canonical);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return std::make_shared<const CachedPlan>(CachedPlan{request->canonical, *plan, 1.5});
}

PlanFile::Name NameOf(const std::string& name, const std::string& fingerprint,
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
  EXPECT_EQ(store->stats().evictions.deleted(), 2);
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
  options_.limits.entries_max = 2;
  auto store = Open();
  std::vector<std::string> left;
  store->SetOnLeft([&](const std::vector<PlanFile::Left>& names) {
    for (const PlanFile::Left& one : names) {
      EXPECT_EQ(one.cause, PlanFile::Cause::kEntries);
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
  store->SetOnLeft(nullptr);
  EXPECT_EQ(left, std::vector<std::string>{"plans/1"});
  EXPECT_FALSE(store->FindName("plans/1").has_value());
  EXPECT_FALSE(store->Has(PlanOf(1)->request.fingerprint));
  EXPECT_TRUE(store->FindName("plans/3").has_value());
  EXPECT_EQ(store->stats().evictions.entries(), 1);
  EXPECT_EQ(*store->RemoveAll({"plans/3"}), 1);
  EXPECT_TRUE(store->Has(PlanOf(3)->request.fingerprint));
  EXPECT_EQ(store->stats().held.names, 1);
  EXPECT_EQ(store->stats().evictions.flushed(), 1);
}

TEST_F(PlanStoreTest, TheOldestGoButNoPinnedOnes) {
  options_.limits.entries_max = 2;
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
  EXPECT_EQ(store->stats().evictions.entries(), 2);
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

TEST_F(PlanStoreTest, LimitsOfBytesAndAgeHold) {
  auto store = Open();
  store->Store(PlanOf(1));
  store->Flush();
  options_.limits.bytes_max = store->stats().held.bytes;
  store = nullptr;
  store = Open();
  now_ = now_.load() + absl::Seconds(1);
  store->Store(PlanOf(1));  // again: replaced, not added
  store->Flush();
  EXPECT_EQ(store->stats().held.plans, 1);
  store->Store(PlanOf(2));
  store->Flush();
  EXPECT_LE(store->stats().held.bytes, options_.limits.bytes_max);
  EXPECT_FALSE(store->Find(PlanOf(1)->request).has_value());
  store = nullptr;
  now_ = now_.load() + options_.limits.age_max + absl::Seconds(1);
  store = Open();
  store->Flush();
  EXPECT_EQ(store->stats().held.plans, 0);
}

TEST_F(PlanStoreTest, ACorruptRowIsSetAsideAndReplaced) {
  const auto plan = PlanOf(1);
  Open()->Store(plan);
  for (const char* damage :
       {"zeroblob(size)", "substr(bytes, 1, size / 2)", "x''",
        "CAST(substr(bytes, 1, size - 9) || x'00112233445566778899' AS BLOB)"}) {
    SCOPED_TRACE(damage);
    Execute(std::string("UPDATE plans SET bytes = ") + damage);
    auto store = Open();
    EXPECT_FALSE(store->Find(plan->request).has_value());
    store->Flush();
    EXPECT_EQ(store->stats().evictions.corrupt(), 1);
    EXPECT_EQ(store->stats().held.plans, 0);
    store->Store(plan);
    store->Flush();
    EXPECT_TRUE(store->Find(plan->request).has_value());
  }
}

TEST_F(PlanStoreTest, APlanOfAnotherReleaseIsMadeAnewAndIsNoDamage) {
  const auto plan = PlanOf(1);
  Open()->Store(plan);
  const std::string bytes = testing::OfNextFormat(EncodePlan(plan->request, plan->plan));
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 3));
  Execute("UPDATE plans SET bytes = x'" + absl::BytesToHexString(packed) + "'");
  auto store = Open();
  EXPECT_FALSE(store->Find(plan->request).has_value());
  store->Store(plan);
  store->Flush();
  EXPECT_TRUE(store->Find(plan->request).has_value());
  EXPECT_EQ(store->stats().evictions.corrupt(), 0);
}

TEST_F(PlanStoreTest, APlanUnderAnothersFingerprintIsNoAnswer) {
  const auto plan = PlanOf(1);
  const auto other = PlanOf(2);
  Open()->Store(plan);
  Execute("UPDATE plans SET fingerprint = '" + other->request.fingerprint + "'");
  auto store = Open();
  EXPECT_FALSE(store->Find(other->request).has_value());
  EXPECT_EQ(store->stats().evictions.corrupt(), 1);
}

TEST_F(PlanStoreTest, ADamagedFileIsSetAside) {
  const auto plan = PlanOf(1);
  {
    auto store = Open();
    for (uint64_t seed = 1; seed < 40; ++seed) store->Store(PlanOf(seed));
  }
  {
    std::fstream file(options_.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(3 * 4096, '\x5a');
  }
  auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->stats().evictions.corrupt(), 1);
  EXPECT_TRUE(std::filesystem::exists(options_.path + ".corrupt"));
  EXPECT_FALSE(store->Find(plan->request).has_value());
  store->Store(plan);
  store->Flush();
  EXPECT_TRUE(store->Find(plan->request).has_value());
}

TEST_F(PlanStoreTest, AnEmptyOrForeignFileIsNoObstacle) {
  std::ofstream(options_.path) << "";
  EXPECT_EQ(Open()->stats().evictions.corrupt(), 0);
  std::ofstream(options_.path, std::ios::trunc) << std::string(10'000, 'x');
  EXPECT_EQ(Open()->stats().evictions.corrupt(), 1);
}

TEST_F(PlanStoreTest, OlderSchemasMigrateAndNewerOnesAreSetAside) {
  const auto plan = PlanOf(1);
  Open()->Store(plan);
  Execute("DROP TABLE names; DROP TABLE set_aside; PRAGMA user_version=1");  // as version 1 was
  {
    auto store = Open();
    EXPECT_EQ(store->stats().evictions.corrupt(), 0);
    EXPECT_TRUE(store->Find(plan->request).has_value());
    EXPECT_TRUE(store->Pin(NameOf("plans/x", plan->request.fingerprint)).ok());
    EXPECT_EQ(store->stats().errors, 0);
  }
  Execute("PRAGMA user_version=99");
  auto store = Open();
  EXPECT_EQ(store->stats().evictions.corrupt(), 1);
  EXPECT_FALSE(store->Find(plan->request).has_value());
}

TEST_F(PlanStoreTest, PinsOfTheSecondSchemaBecomeNames) {
  const auto plan = PlanOf(1);
  {
    auto store = Open();
    ASSERT_TRUE(store->Pin(NameOf("plans/x", plan->request.fingerprint)).ok());
    store->Store(plan);
  }
  Execute(
      "CREATE TABLE pins(name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, spec BLOB NOT NULL);"
      "CREATE INDEX pins_by_fingerprint ON pins(fingerprint);"
      "INSERT INTO pins SELECT name, fingerprint, spec FROM names; DROP TABLE names;"
      "PRAGMA user_version=2");
  auto store = Open();
  ASSERT_EQ(store->PinnedNames().size(), 1u);
  EXPECT_EQ(store->PinnedNames()[0].spec, "spec");
  EXPECT_EQ(store->PinnedNames()[0].fingerprint, plan->request.fingerprint);
  EXPECT_TRUE(store->Find(plan->request).has_value());
}

TEST_F(PlanStoreTest, IsOpenOnlyOnce) {
  auto store = Open();
  EXPECT_EQ(PlanStore::Open(options_).status().code(), absl::StatusCode::kUnavailable);
  options_.path = (directory_ / "no" / "plans.db").string();
  EXPECT_EQ(PlanStore::Open(options_).status().code(), absl::StatusCode::kUnavailable);
}

// ---- Killed writers ----

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
    EXPECT_EQ(store->stats().evictions.corrupt(), 0);
    EXPECT_EQ(store->stats().errors, 0);
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace remesh
