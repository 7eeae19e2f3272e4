// SPDX-License-Identifier: Apache-2.0
// What Allocate reserves and Release frees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "worker/local/testing/local_service_fixture.h"

namespace remesh::worker {
namespace {

using ::testing::HasSubstr;

TEST_F(LocalServiceTest, MemoryThatIsShortIsRefusedByNumber) {
  v1::Assignment large = Assignment();
  large.mutable_arrays(1)->set_shape(0, 100000);
  large.mutable_shards(2)->mutable_box()->set_hi(0, 100000);
  Assign(large);
  const absl::Status status = Allocate();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(status).metadata["free_bytes"], "4096");
}

TEST_F(LocalServiceTest, ReleaseFreesOnlyWhatIsBeingBuilt) {
  EXPECT_EQ(Reason(Release()), "STATE_NOT_FOUND");
  Assign();
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Release().ok());
  EXPECT_EQ(store_->bytes(), 0);
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  EXPECT_EQ(Reason(Release()), "GENERATION_READABLE");
}

TEST_F(LocalServiceTest, MemoryReservedForAForgottenStateIsFreed) {
  Assign();
  absl::Notification go;
  files_.Post([&] { go.WaitForNotification(); });
  std::thread allocating([this] { EXPECT_EQ(Reason(Allocate()), "STATE_NOT_FOUND"); });
  UntilACallWaits();
  EXPECT_FALSE(OnStrand([this] { return buffers_->Forget(kLocalState, ""); }));
  allocating.join();  // does not wait for the queue
  EXPECT_TRUE(OnStrand([this] { return buffers_->Forget(kLocalState, ""); }));
  go.Notify();
  files_.Stop();
  EXPECT_EQ(store_->bytes(), 0);
  EXPECT_TRUE(store_->List().empty());
}

TEST_F(LocalServiceTest, ReleaseGivesUpWhatIsBeingReserved) {
  Assign();
  absl::Notification go;
  files_.Post([&] { go.WaitForNotification(); });
  std::thread allocating([this] { EXPECT_TRUE(Allocate().ok()); });
  UntilACallWaits();
  EXPECT_TRUE(Release().ok());
  go.Notify();
  allocating.join();  // the call was run again
  EXPECT_EQ(store_->List().size(), 1u);
}

TEST_F(LocalServiceTest, BuffersOfAnotherAssignmentAreNotFreedUnasked) {
  Assign();
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  v1::Assignment turned = Assignment();
  turned.mutable_shards(0)->set_local_device(1);
  turned.mutable_shards(1)->set_local_device(0);
  Assign(turned);
  EXPECT_EQ(Reason(Allocate()), "STALE_SHARDS");
  EXPECT_TRUE(GetShards(1).ok());
  ASSERT_TRUE(Unseal().ok());
  ASSERT_TRUE(Release().ok());
  EXPECT_TRUE(Allocate().ok());
}

TEST_F(LocalServiceTest, ReleaseLeavesACommittedGenerationThatIsUnsealed) {
  Assign();
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  v1::Assignment committed = Assignment();
  committed.set_committed(true);
  Assign(committed);
  ASSERT_TRUE(Unseal().ok());
  EXPECT_EQ(Reason(Release()), "GENERATION_READABLE");
  EXPECT_EQ(store_->List().size(), 1u);
}

TEST_F(LocalServiceTest, WhatADeletedStateLeftNeverBecomesTheNextOfItsName) {
  v1::Assignment first = Assignment(), second = Assignment();
  first.set_state_uid("first");
  second.set_state_uid("second");
  Assign(first);
  ASSERT_TRUE(Allocate().ok());
  ASSERT_TRUE(Seal().ok());
  ASSERT_TRUE(GetShards(1).ok());
  Assign(second);  // a planner that is not sure of the first sends no Forget
  EXPECT_EQ(Reason(GetShards(1)), "GENERATION_NOT_FOUND");
  const ErrorInfo stale = GetErrorInfo(Allocate());
  EXPECT_EQ(stale.reason, "STALE_SHARDS");
  EXPECT_EQ(stale.metadata.at("state_uid"), "first");
  EXPECT_THAT(std::string(Allocate().message()),
              HasSubstr(absl::StrCat("remeshctl workers discard host-a ", kLocalState, " first")));
  EXPECT_TRUE(Release().ok());  // frees nothing of the second
  EXPECT_EQ(Reason(Release("first")), "STATE_REPLACED");
  EXPECT_EQ(store_->List().size(), 1u);
  EXPECT_EQ(Reason(Seal()), "NOT_ALLOCATED");
  const auto forget = [this](const std::string& uid) {
    absl::Notification done;
    strand_.Post([&] {
      buffers_->Forget(kLocalState, uid);
      done.Notify();
    });
    done.WaitForNotification();
  };
  forget("first");
  ASSERT_TRUE(Allocate().ok());
  EXPECT_FALSE(shards_.shards(0).sealed());
  ASSERT_TRUE(Seal().ok());
  EXPECT_EQ(changes_.back().state_uid(), "second");
  forget("first");  // once more
  EXPECT_TRUE(GetShards(1).ok());
  forget("second");
  EXPECT_EQ(Reason(Allocate()), "STATE_NOT_FOUND");
}

}  // namespace
}  // namespace remesh::worker
