// SPDX-License-Identifier: Apache-2.0
#include "server/cache/held_bytes.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>

#include "planner/codec/plan_bytes.h"
#include "planner/make_plan.h"
#include "tests/benchmark/models.h"
#include "tests/benchmark/planner_cases.h"

namespace remesh::server {
namespace {

// Bytes that the process has allocated and not freed.
int64_t Allocated() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// The difference between the memory that copies of a spec's plan take and HeldBytes() of them.
void ExpectCounted(const v1::PlanSpec& spec) {
  constexpr int kCopies = 20;
  auto canonicalized = planner::Canonicalize(testing::RequestOf(spec));
  ASSERT_TRUE(canonicalized.ok()) << canonicalized.status();
  auto plan = planner::MakePlan(canonicalized->canonical);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string bytes = planner::EncodePlan(canonicalized->canonical, *plan);
  std::vector<std::unique_ptr<CachedPlan>> copies(kCopies);
  std::vector<std::unique_ptr<planner::Binding>> bindings(kCopies);
  const int64_t before = Allocated();
  int64_t counted = 0;
  for (int i = 0; i < kCopies; ++i) {
    auto answered = planner::DecodePlan(bytes);
    ASSERT_TRUE(answered.ok()) << answered.status();
    copies[i] = std::make_unique<CachedPlan>(
        CachedPlan{.request = std::move(answered->request), .plan = std::move(answered->plan)});
    bindings[i] = std::make_unique<planner::Binding>(canonicalized->binding);
    counted += HeldBytes(*copies[i]) + HeldBytes(*bindings[i]) + 128;  // the last: sizeof(Binding)
  }
  const int64_t taken = Allocated() - before;
  if (taken <= 0) GTEST_SKIP() << "this allocator does not count";
  EXPECT_NEAR(static_cast<double>(counted) / static_cast<double>(taken), 1, 0.1)
      << counted << " counted, " << taken << " taken";
}

TEST(HeldBytesTest, ManyArrays) {
  ExpectCounted(testing::ModelSpec(testing::Llama8b(), {.tp = 8, .pp = 2},
                                   {.tp = 4, .pp = 2, .dp = 2}, testing::Targets::kSameDevices));
}

TEST(HeldBytesTest, ManyDevices) { ExpectCounted(testing::FlatSpec(1024, 768, false)); }

TEST(HeldBytesTest, OneArray) {
  ExpectCounted(testing::MeshSpec({1024, 1024, 512}, {2, 4, "RS0R"}, {2, 4, "S0RR"}));
}

}  // namespace
}  // namespace remesh::server
