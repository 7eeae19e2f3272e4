// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/fences.h"

#include "base/error.h"
#include "gtest/gtest.h"

namespace remesh::server::coordination {
namespace {

constexpr char kScope[] = "jobs/a/worlds/main";

TEST(FencesTest, OnlyThePresentEpochPasses) {
  Fences fences;
  fences.Set(kScope, 7);
  EXPECT_TRUE(fences.CheckFence(kScope, 7).ok());
  fences.Set(kScope, 9);
  EXPECT_TRUE(fences.CheckFence(kScope, 9).ok());
  const absl::Status stale = fences.CheckFence(kScope, 7);
  EXPECT_EQ(stale.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(stale.message(), "epoch 7 of jobs/a/worlds/main is over: the present one is 9");
  EXPECT_EQ(GetErrorInfo(stale).reason, "STALE_EPOCH");
  EXPECT_EQ(GetErrorInfo(stale).metadata["epoch"], "9");
}

TEST(FencesTest, AnUnknownScopeIsStale) {
  Fences fences;
  EXPECT_EQ(GetErrorInfo(fences.CheckFence(kScope, 1)).reason, "STALE_EPOCH");
  EXPECT_FALSE(fences.CheckFence(kScope, 0).ok());
  fences.Set(kScope, 1);
  fences.Forget(kScope);
  EXPECT_EQ(fences.CheckFence(kScope, 1).message(), "epoch 1 of jobs/a/worlds/main is not known");
}

}  // namespace
}  // namespace remesh::server::coordination
