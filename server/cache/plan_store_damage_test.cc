// SPDX-License-Identifier: Apache-2.0
// Files that another release wrote, or that are damaged.
#include <gtest/gtest.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "planner/codec/plan_bytes.h"
#include "server/cache/plan_store_test.h"
#include "tests/testing/resealed.h"

namespace remesh::server {
namespace {

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
    EXPECT_EQ(store->stats().evictions.corrupt, 1);
    EXPECT_EQ(store->stats().held.plans, 0);
    store->Store(plan);
    store->Flush();
    EXPECT_TRUE(store->Find(plan->request).has_value());
  }
}

TEST_F(PlanStoreTest, APlanOfAnotherReleaseIsMadeAgainAndIsNoDamage) {
  const auto plan = PlanOf(1);
  const std::string ours = planner::EncodePlan(plan->request, plan->plan);
  {
    auto store = Open();
    store->Store(plan);
    EXPECT_TRUE(store->Pin(NameOf("plans/x", plan->request.fingerprint)).ok());
  }
  for (const std::string& bytes : {testing::OfFormatBefore(ours), testing::OfNextFormat(ours)}) {
    std::string packed(ZSTD_compressBound(bytes.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 3));
    Execute("UPDATE plans SET bytes = x'" + absl::BytesToHexString(packed) + "'");
    auto store = Open();
    EXPECT_FALSE(store->Find(plan->request).has_value());
    store->Store(plan);
    store->Flush();
    EXPECT_TRUE(store->Find(plan->request).has_value());
    EXPECT_EQ(store->stats().evictions.corrupt, 0);
    ASSERT_EQ(store->PinnedNames().size(), 1u);
    EXPECT_EQ(store->PinnedNames()[0].name, "plans/x");
  }
}

TEST_F(PlanStoreTest, APlanUnderAnothersFingerprintIsNoAnswer) {
  const auto plan = PlanOf(1);
  const auto other = PlanOf(2);
  Open()->Store(plan);
  Execute("UPDATE plans SET fingerprint = '" + other->request.fingerprint + "'");
  auto store = Open();
  EXPECT_FALSE(store->Find(other->request).has_value());
  EXPECT_EQ(store->stats().evictions.corrupt, 1);
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
  EXPECT_EQ(store->stats().evictions.corrupt, 1);
  EXPECT_TRUE(std::filesystem::exists(options_.path + ".corrupt"));
  EXPECT_FALSE(store->Find(plan->request).has_value());
  store->Store(plan);
  store->Flush();
  EXPECT_TRUE(store->Find(plan->request).has_value());
}

TEST_F(PlanStoreTest, AnEmptyOrForeignFileIsNoObstacle) {
  std::ofstream(options_.path) << "";
  EXPECT_EQ(Open()->stats().evictions.corrupt, 0);
  std::ofstream(options_.path, std::ios::trunc) << std::string(10'000, 'x');
  EXPECT_EQ(Open()->stats().evictions.corrupt, 1);
}

TEST_F(PlanStoreTest, OlderSchemasMigrateAndNewerOnesAreSetAside) {
  const auto plan = PlanOf(1);
  Open()->Store(plan);
  Execute("DROP TABLE names; DROP TABLE set_aside; PRAGMA user_version=1");  // as version 1 was
  {
    auto store = Open();
    EXPECT_EQ(store->stats().evictions.corrupt, 0);
    EXPECT_TRUE(store->Find(plan->request).has_value());
    EXPECT_TRUE(store->Pin(NameOf("plans/x", plan->request.fingerprint)).ok());
    EXPECT_EQ(store->stats().errors, 0);
  }
  Execute("PRAGMA user_version=99");
  auto store = Open();
  EXPECT_EQ(store->stats().evictions.corrupt, 1);
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

}  // namespace
}  // namespace remesh::server
