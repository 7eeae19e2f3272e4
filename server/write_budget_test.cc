// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/write_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace remesh::server {
namespace {

class WriteBudgetTest : public testing::Test {
 protected:
  void Take(const std::string& who, size_t bytes) {
    budget_.Take(bytes, [this, who] { went_ += who; });
  }

  WriteBudget budget_{100};
  std::string went_;
};

TEST_F(WriteBudgetTest, ThoseForWhomThereIsRoomGoAtOnce) {
  Take("a", 60);
  Take("b", 40);
  EXPECT_EQ(went_, "ab");
  Take("c", 1);
  EXPECT_EQ(went_, "ab");
  EXPECT_EQ(budget_.waiting(), 1u);
  budget_.Return(60);
  EXPECT_EQ(went_, "abc");
}

// Else a large one could wait forever.
TEST_F(WriteBudgetTest, NoWriteOvertakesAnother) {
  Take("a", 60);
  Take("b", 80);
  Take("c", 10);
  EXPECT_EQ(went_, "a");
  budget_.Return(60);
  EXPECT_EQ(went_, "abc");
}

TEST_F(WriteBudgetTest, MoreThanThereIsCountsAsAllOfIt) {
  Take("a", 1);
  Take("b", 1000);
  EXPECT_EQ(went_, "a");
  budget_.Return(1);
  EXPECT_EQ(went_, "ab");
  Take("c", 1);
  budget_.Return(1000);
  EXPECT_EQ(went_, "abc");
}

// A write may end within the call that started it. However many wait, the calls do not nest.
TEST_F(WriteBudgetTest, SharesMayReturnWhileTheyAreTaken) {
  Take("a", 100);
  int depth = 0;
  int deepest = 0;
  for (int i = 0; i < 1000; ++i) {
    budget_.Take(100, [&] {
      deepest = std::max(deepest, ++depth);
      budget_.Return(100);
      --depth;
    });
  }
  EXPECT_EQ(budget_.waiting(), 1000u);
  budget_.Return(100);
  EXPECT_EQ(budget_.waiting(), 0u);
  EXPECT_EQ(deepest, 1);
}

}  // namespace
}  // namespace remesh::server
