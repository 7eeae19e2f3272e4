// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/assignment_parts.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "proto/program/shard_columns.h"
#include "service/rpc/error_info.h"
#include "worker/agent/testing/agent_fixture.h"

namespace remesh::worker {
namespace {

v1::Assignment Part(int64_t generation, std::vector<int> devices) {
  v1::Assignment part;
  part.set_state(kState);
  part.set_state_uid("uid");
  part.set_generation(generation);
  for (const int device : devices) part.add_shards()->set_device(device);
  return part;
}

std::vector<int64_t> DevicesOf(const v1::Assignment& assignment) {
  std::vector<int64_t> devices;
  for (const v1::ShardSpec& shard : assignment.shards()) devices.push_back(shard.device());
  return devices;
}

TEST(AssignmentPartsTest, PartsComeBeforeTheLastOfTheSame) {
  AssignmentParts parts;
  v1::Assignment first = Part(1, {1, 2});
  first.add_arrays()->set_name("w");
  ASSERT_TRUE(parts.Add(first).ok());
  ASSERT_TRUE(parts.Add(Part(2, {7})).ok());
  ASSERT_TRUE(parts.Add(Part(1, {3})).ok());
  v1::Assignment last = Part(1, {4});
  last.set_committed(true);
  last.add_arrays()->set_name("v");
  const v1::Assignment whole = parts.Complete(last);
  EXPECT_EQ(DevicesOf(whole), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(whole.arrays(0).name(), "w");
  EXPECT_EQ(whole.arrays(1).name(), "v");
  EXPECT_TRUE(whole.committed());
  EXPECT_EQ(DevicesOf(parts.Complete(Part(1, {4}))), (std::vector<int64_t>{4}));
  EXPECT_EQ(DevicesOf(parts.Complete(Part(2, {8}))), (std::vector<int64_t>{7, 8}));
}

TEST(AssignmentPartsTest, WhatWaitsIsBounded) {
  AssignmentParts parts(/*shards_max=*/3);
  ASSERT_TRUE(parts.Add(Part(1, {1, 2})).ok());
  EXPECT_EQ(GetErrorInfo(parts.Add(Part(2, {3, 4}))).reason, "ASSIGNMENT_TOO_LARGE");
  parts.Complete(Part(1, {}));
  EXPECT_TRUE(parts.Add(Part(2, {3, 4})).ok());
  parts.Clear();
  EXPECT_TRUE(parts.Add(Part(3, {1, 2, 3})).ok());
  EXPECT_EQ(DevicesOf(parts.Complete(Part(2, {}))), std::vector<int64_t>{});
}

TEST(AssignmentPartsTest, OnlyTheLastMayHaveColumns) {
  AssignmentParts parts;
  v1::Assignment part = Part(1, {});
  part.mutable_columns()->add_devices(1);
  EXPECT_EQ(GetErrorInfo(parts.Add(part)).metadata.at("field"), "columns");
}

TEST_F(AgentTest, AnAssignmentInPartsIsAllocatedWhole) {
  v1::Assignment rest = Rows(0);
  rest.set_state("jobs/a/states/large");
  v1::Assignment part = rest;
  rest.clear_arrays();
  rest.clear_shards();
  const auto say_part = [&] {
    Command(0, [&](v1::AttachResponse& c) {
      *c.mutable_assignment_part()->mutable_assignment() = part;
    });
  };
  say_part();
  hosts_[0]->Attach();  // parts of the previous stream are dropped
  say_part();
  Command(0,
          [&](v1::AttachResponse& c) { *c.mutable_assign_state()->mutable_assignment() = rest; });
  v1::AllocateRequest request;
  request.set_state(rest.state());
  const auto shards = hosts_[0]->Allocate(request);
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_EQ(shards->shards_size(), 1);
}

TEST_F(AgentTest, APreparationMayHaveItsShardsInColumns) {
  ReadyToMove();
  Prepare([](v1::Prepare& prepare) {
    proto::ShardsToColumns(*prepare.mutable_target());
    EXPECT_TRUE(prepare.target().has_columns());
  });
  for (auto& host : hosts_) ASSERT_TRUE(host->WaitFor(v1::AttachRequest::kPrepared));
  Transfer();
  Verify();
  Commit();
  EXPECT_TRUE(hosts_[0]->Right(*hosts_[0]->GetShards(2)));
}

TEST_F(AgentTest, ColumnsThatDoNotFitFailTheAttempt) {
  ReadyToMove();
  Prepare([](v1::Prepare& prepare) {
    proto::ShardsToColumns(*prepare.mutable_target());
    prepare.mutable_target()->mutable_columns()->add_arrays(0);
  });
  const auto failed = hosts_[0]->WaitFor(v1::AttachRequest::kFailed);
  ASSERT_TRUE(failed);
  const ErrorInfo info = GetErrorInfo(service::StatusFromProto(failed->failed().error()));
  EXPECT_EQ(info.metadata.at("field"), "target.columns.arrays");
}

TEST_F(AgentTest, AnAssignmentMayHaveItsShardsInColumns) {
  v1::Assignment assignment = Rows(0);
  assignment.set_state("jobs/j/states/in-columns");
  proto::ShardsToColumns(assignment);
  ASSERT_TRUE(assignment.has_columns());
  Command(0, [&](v1::AttachResponse& c) {
    *c.mutable_assign_state()->mutable_assignment() = assignment;
  });
  v1::AllocateRequest request;
  request.set_state(assignment.state());
  const auto shards = hosts_[0]->Allocate(request);
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_EQ(shards->shards_size(), Rows(0).shards_size());
}

// Regression: columns brought a shard without dimensions back without its box, so its buffers were
// no longer those that were assigned (STALE_SHARDS), after an upgrade of either side.
TEST_F(AgentTest, BuffersOfAScalarAreTheSameInColumns) {
  v1::Assignment assignment = Rows(0);
  assignment.set_state("jobs/j/states/scalar");
  assignment.mutable_arrays(0)->clear_shape();
  assignment.mutable_shards(0)->mutable_box()->Clear();
  v1::AllocateRequest request;
  request.set_state(assignment.state());
  for (const bool in_columns : {false, true, false}) {
    if (in_columns) proto::ShardsToColumns(assignment);
    if (!in_columns) ASSERT_TRUE(proto::ColumnsToShards(assignment).ok());
    EXPECT_EQ(assignment.has_columns(), in_columns);
    Command(0, [&](v1::AttachResponse& c) {
      *c.mutable_assign_state()->mutable_assignment() = assignment;
    });
    const auto shards = hosts_[0]->Allocate(request);
    ASSERT_TRUE(shards.ok()) << shards.status();
    EXPECT_EQ(shards->shards_size(), 1);
  }
}

TEST_F(AgentTest, ColumnsSpeakOfTheArraysOfAllParts) {
  v1::Assignment last = Rows(0);
  last.set_state("jobs/j/states/parts-and-columns");
  v1::Assignment part = last;
  part.clear_shards();
  proto::ShardsToColumns(last);
  last.clear_arrays();
  Command(
      0, [&](v1::AttachResponse& c) { *c.mutable_assignment_part()->mutable_assignment() = part; });
  Command(0,
          [&](v1::AttachResponse& c) { *c.mutable_assign_state()->mutable_assignment() = last; });
  v1::AllocateRequest request;
  request.set_state(last.state());
  const auto shards = hosts_[0]->Allocate(request);
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_EQ(shards->shards_size(), Rows(0).shards_size());
}

TEST_F(AgentTest, AnAssignmentWhoseColumnsDoNotFitEndsTheStream) {
  v1::Assignment assignment = Rows(0);
  proto::ShardsToColumns(assignment);
  assignment.mutable_columns()->add_arrays(0);
  Command(0, [&](v1::AttachResponse& c) {
    *c.mutable_assign_state()->mutable_assignment() = assignment;
  });
  ASSERT_EQ(hosts_[0]->disconnects.size(), 1u);
  EXPECT_EQ(GetErrorInfo(hosts_[0]->disconnects[0]).metadata.at("field"),
            "assign_state.assignment.columns.arrays");
}

TEST_F(AgentTest, APreparationInPartsIsWhole) {
  ReadyToMove();
  for (int h = 0; h < 2; ++h) {
    v1::Assignment part = Columns(h);
    Command(h, [&](v1::AttachResponse& c) {
      *c.mutable_assignment_part()->mutable_assignment() = part;
    });
  }
  Prepare([](v1::Prepare& prepare) {
    prepare.mutable_target()->clear_arrays();
    prepare.mutable_target()->clear_shards();
  });
  for (auto& host : hosts_) ASSERT_TRUE(host->WaitFor(v1::AttachRequest::kPrepared));
  Transfer();
  Verify();
  Commit();
  EXPECT_TRUE(hosts_[0]->Right(*hosts_[0]->GetShards(2)));
}

}  // namespace
}  // namespace remesh::worker
