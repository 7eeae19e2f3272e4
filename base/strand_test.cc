// SPDX-License-Identifier: Apache-2.0
#include "base/strand.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace remesh {
namespace {

TEST(StrandTest, RunsEveryTaskInOrder) {
  std::vector<int> seen;
  Strand strand;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(strand.Post([&seen, i] { seen.push_back(i); }));
  strand.Stop();
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[i], i);
}

TEST(StrandTest, TasksOfManyThreadsNeverOverlap) {
  int count = 0;  // unguarded on purpose: the strand is the guard
  {
    Strand strand;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) strand.Post([&count] { ++count; });
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(count, 4000);
}

TEST(StrandTest, RefusesTasksOnceStopped) {
  Strand strand;
  strand.Stop();
  EXPECT_FALSE(strand.Post([] { FAIL(); }));
}

}  // namespace
}  // namespace remesh
