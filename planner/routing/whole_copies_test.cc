// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/whole_copies.h"

#include <gtest/gtest.h>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::MakeClass;

TEST(WholeCopiesTest, HoldersServeBeforeNeedersDo) {
  std::vector<int64_t> room = {20, 100, 100};
  const auto sent =
      DealWholeCopies({.classes = {MakeClass({0}, {1, 2}, 10)}, .class_of = {}}, room);
  EXPECT_EQ(sent[0], (Served{20, 0, 0}));
  EXPECT_EQ(room, (std::vector<int64_t>{0, 100, 100}));
}

TEST(WholeCopiesTest, TheRootIsNeverDealtToANeeder) {
  std::vector<int64_t> room = {9, 100, 100};
  const auto sent =
      DealWholeCopies({.classes = {MakeClass({0}, {1, 2}, 10)}, .class_of = {}}, room);
  EXPECT_EQ(sent[0][0], 0);
  EXPECT_EQ(sent[0][1] + sent[0][2], 10);
}

TEST(WholeCopiesTest, EveryRootComesBeforeFurtherCopies) {
  std::vector<int64_t> room = {30, 0, 0};
  const auto sent = DealWholeCopies(
      {.classes = {MakeClass({0}, {1, 2}, 20), MakeClass({0}, {1}, 10)}, .class_of = {}}, room);
  EXPECT_EQ(sent[0][0], 20);
  EXPECT_EQ(sent[1][0], 10);
}

}  // namespace
}  // namespace remesh::planner
