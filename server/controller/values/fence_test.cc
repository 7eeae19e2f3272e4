// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/fence.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "gtest/gtest.h"

namespace remesh::server {
namespace {

v1::Fence Make(const std::string& scope, int64_t epoch) {
  v1::Fence fence;
  fence.set_scope(scope);
  fence.set_epoch(epoch);
  return fence;
}

absl::Status Check(const v1::Fence& fence, const std::string& state = "jobs/a/states/s") {
  return CheckFence(fence, state, [](const std::string& scope, int64_t epoch) {
    return epoch == 7 ? absl::OkStatus() : NoWorlds(scope, epoch);
  });
}

TEST(FenceTest, ThePresentEpochPasses) {
  EXPECT_TRUE(Check(Make("jobs/a/worlds/main", 7)).ok());
  const absl::Status stale = Check(Make("jobs/a/worlds/main", 6));
  EXPECT_EQ(GetErrorInfo(stale).reason, "STALE_EPOCH");
  EXPECT_EQ(stale.message(), "epoch 6 of jobs/a/worlds/main is not known");
}

TEST(FenceTest, TheScopeIsOfTheStatesJob) {
  const absl::Status other = Check(Make("jobs/b/worlds/main", 7));
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(other.message(),
            "fence.scope: value \"jobs/b/worlds/main\" must be of jobs/a, the job of "
            "jobs/a/states/s");
}

TEST(FenceTest, OtherScopesAreRefusedByName) {
  for (const char* scope :
       {"", "jobs/a", "jobs/a/states/main", "jobs/a/worlds/", "jobs/a/worlds/x/y"}) {
    const absl::Status bad = Check(Make(scope, 7));
    EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument) << scope;
    EXPECT_EQ(GetErrorInfo(bad).metadata["field"], "fence.scope") << scope;
  }
  EXPECT_EQ(GetErrorInfo(Check(Make("jobs/a/worlds/main", 7), "s")).metadata["field"], "name");
}

}  // namespace
}  // namespace remesh::server
