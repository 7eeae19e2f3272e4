// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/forest.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace remesh::planner {
namespace {

// Two items that both use both bins.
struct Square {
  std::vector<int32_t> edge_bin = {0, 1, 0, 1};
  std::vector<int64_t> first_edge = {0, 2, 4};
  std::vector<int64_t> flow = {3, 5, 4, 2};
};

TEST(ForestTest, ACycleLosesAnEdgeAndKeepsItsSums) {
  Square square;
  auto& flow = square.flow;
  CancelCycles(square.edge_bin, square.first_edge, 2, {false, false}, flow);
  EXPECT_EQ(std::count(flow.begin(), flow.end(), 0), 1);
  EXPECT_EQ(flow[0] + flow[1], 8);
  EXPECT_EQ(flow[2] + flow[3], 6);
  EXPECT_EQ(flow[0] + flow[2], 7);
}

TEST(ForestTest, FixedItemsStayAsTheyAre) {
  Square square;
  CancelCycles(square.edge_bin, square.first_edge, 2, {true, false}, square.flow);
  EXPECT_EQ(square.flow, Square().flow);
}

}  // namespace
}  // namespace remesh::planner
