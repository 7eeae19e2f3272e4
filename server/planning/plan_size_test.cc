// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_size.h"

#include <gtest/gtest.h>

#include "proto/convert/plan_spec.h"
#include "server/questions/planning_test_spec.h"

namespace remesh::server {
namespace {

int64_t PairsOf(const v1::PlanSpec& spec) {
  const auto request = proto::ToReshardRequest(spec, nullptr);
  EXPECT_TRUE(request.ok()) << request.status();
  return PairsOfBoxes(*request);
}

TEST(PlanSizeTest, ASmallQuestionHasFewPairs) { EXPECT_EQ(PairsOf(TestSpec()), 16); }

TEST(PlanSizeTest, ArraysOfOneShardingCountOnce) {
  v1::PlanSpec spec = TestSpec();
  v1::ArraySpec twin = spec.arrays(0);
  twin.set_name("twin");
  *spec.add_arrays() = twin;
  EXPECT_EQ(PairsOf(spec), 16);
}

}  // namespace
}  // namespace remesh::server
