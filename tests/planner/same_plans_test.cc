// SPDX-License-Identifier: Apache-2.0
// Plans on disk are served as long as the format's number stands: so the number must stand for one
// way to plan.
#include <gtest/gtest.h>
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "planner/codec/plan_bytes.h"
#include "planner/make_plan.h"
#include "tests/testing/random_request.h"

namespace remesh::planner {
namespace {

using testing::RandomRequest;

// Over the bytes of the plans of `count` requests, each after `change`.
template <typename Change>
std::string SumOfPlans(uint64_t count, const Change& change) {
  std::string all;
  for (uint64_t seed = 0; seed < count; ++seed) {
    ReshardRequest request = RandomRequest(seed);
    change(request);
    const auto canonical = Canonicalize(request);
    EXPECT_TRUE(canonical.ok()) << canonical.status();
    const auto plan = MakePlan(canonical->canonical);
    all += plan.ok() ? EncodePlan(canonical->canonical, *plan) : plan.status().ToString();
  }
  return absl::StrCat(absl::Hex(XXH3_64bits(all.data(), all.size()), absl::kZeroPad16));
}

TEST(SamePlansTest, AFormatStandsForOneWayToPlan) {
  const std::string what_to_do =
      "The planner answers as it did not before. If that is meant, raise kPlanBytesFormat, so that "
      "no plan on disk is served in place of the new one, unless the last release has a lower "
      "number already; and put the number and the new sums here.";
  EXPECT_EQ(kPlanBytesFormat, 9) << what_to_do;
  EXPECT_EQ(SumOfPlans(300, [](ReshardRequest&) {}), "8067bebd29538acc") << what_to_do;
  EXPECT_EQ(SumOfPlans(100, [](ReshardRequest& r) { r.options.donate = true; }), "56a871ffd7720dd9")
      << what_to_do;
  EXPECT_EQ(SumOfPlans(100, [](ReshardRequest& r) { r.options.free_target_order = true; }),
            "d1972acfa1e012aa")
      << what_to_do;
}

}  // namespace
}  // namespace remesh::planner
