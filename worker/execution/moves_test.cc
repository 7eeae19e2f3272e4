// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/moves.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "worker/execution/testing/cluster.h"
#include "worker/transport/testing/memory_transport.h"

namespace remesh::worker {

using planner::Box;
using planner::Space;

namespace {

// What BindMoves() must refuse, each with an error of its own.
class BindTest : public ::testing::Test {
 protected:
  BindTest() {
    case_.arrays = {{"a", {8}, "u8"}};
    case_.windows = 2;
    case_.source = {{0, 0, Box{{{0, 8}}}}};
    case_.target = {{0, 2, Box{{{0, 8}}}}};
  }
  absl::Status Bind(int host) {
    MemoryFabric fabric;
    return TestHost(case_, host, fabric.NewTransport("x"), {}).Bind(case_).status();
  }
  TestCase case_;
  const Box box_{{{0, 8}}};
};

TEST_F(BindTest, ProgramsThatDoNotFitTheState) {
  case_.operations = {{0, 0, box_, 0, 2}};
  EXPECT_TRUE(Bind(0).ok());
  EXPECT_TRUE(Bind(1).ok());
  case_.operations = {{0, 0, box_, 1, 2}};
  EXPECT_EQ(GetErrorInfo(Bind(0)).metadata["why"], "is in no source shard");
  case_.operations = {{0, 0, box_, 0, 3}};
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is in no target shard");
  case_.operations = {{0, 0, box_, 0, 2, Space::kStaging, Space::kTarget}};
  EXPECT_EQ(GetErrorInfo(Bind(0)).metadata["why"], "was not brought before");
  case_.operations = {{0, 0, box_, 0, 2}, {0, 0, box_, 2, 2, Space::kTarget, Space::kTarget}};
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is passed on in the window it comes in");
  case_.operations[1].window = 1;
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is brought twice");
}

// Target memory that no move fills would show its earlier content.
TEST_F(BindTest, AProgramThatLeavesAShardUnfilledIsRefused) {
  case_.operations = {{0, 0, Box{{{0, 7}}}, 0, 2}};
  EXPECT_TRUE(Bind(0).ok());
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["filled_bits"], "56");
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["bits"], "64");
}

// The stretches have as many bits as the shard, but bring some twice and others never.
TEST_F(BindTest, AProgramWhoseStretchesOverlapIsRefused) {
  case_.operations = {{0, 0, box_, 0, 2, Space::kSource, Space::kTarget, 0, {0, 32}},
                      {1, 0, box_, 0, 2, Space::kSource, Space::kTarget, 0, {16, 48}}};
  EXPECT_TRUE(Bind(0).ok());
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is brought twice");
  case_.operations = {{0, 0, Box{{{0, 4}}}, 0, 2}, {0, 0, Box{{{2, 6}}}, 0, 2}};
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is on two tapes");
}

TEST_F(BindTest, RelaysPassOnInALaterWindow) {
  case_.hosts = 3;
  case_.target = {{0, 4, box_}};
  case_.operations = {{0, 0, box_, 0, 2, Space::kSource, Space::kStaging},
                      {0, 0, box_, 2, 4, Space::kStaging, Space::kTarget}};
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "is passed on in the window it comes in");
  case_.operations[1].window = 1;
  EXPECT_TRUE(Bind(1).ok());
}

// Values of two subgroups have the same array and box: each leaves from where it was staged.
TEST_F(BindTest, StagedValuesOfOtherKeysLieApart) {
  case_.hosts = 3;
  case_.source = {{0, 0, box_}, {0, 1, box_}};
  case_.target = {{0, 4, box_}, {0, 5, box_}};
  case_.operations = {{0, 0, box_, 0, 2, Space::kSource, Space::kStaging, 7},
                      {0, 0, box_, 1, 2, Space::kSource, Space::kStaging, 8},
                      {1, 0, box_, 2, 4, Space::kStaging, Space::kTarget, 7},
                      {1, 0, box_, 2, 5, Space::kStaging, Space::kTarget, 8}};
  MemoryFabric fabric;
  const auto list = TestHost(case_, 1, fabric.NewTransport("x"), {}).Bind(case_);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->moves[2].source, list->moves[0].target);
  EXPECT_EQ(list->moves[3].source, list->moves[1].target);
  case_.operations[3].tape = 9;
  EXPECT_EQ(GetErrorInfo(Bind(1)).metadata["why"], "was not brought before");
}

}  // namespace
}  // namespace remesh::worker
