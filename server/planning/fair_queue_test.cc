// SPDX-License-Identifier: Apache-2.0
#include "server/planning/fair_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace remesh::server {
namespace {

constexpr FairQueue::Limits kRoomy = {
    .waiting_max = 100, .waiting_max_of_caller = 100, .running_max_of_caller = 100};

class FairQueueTest : public ::testing::Test {
 protected:
  bool Push(FairQueue& queue, const std::string& caller, const std::string& what,
            bool execution = false) {
    return queue.Push({.caller = caller, .execution = execution},
                      [this, what] { ran_.push_back(what); });
  }
  // What runs next, and ends; "" for none.
  std::string RunNext(FairQueue& queue) {
    std::optional<FairQueue::Next> next = queue.Pop(false);
    if (!next.has_value()) return "";
    next->task();
    queue.Ended(next->caller);
    return ran_.back();
  }

  std::vector<std::string> ran_;
};

TEST_F(FairQueueTest, CallersTakeTurnsHoweverMuchOneAsks) {
  FairQueue queue(kRoomy);
  for (const char* what : {"a1", "a2", "a3", "a4"}) Push(queue, "a", what);
  Push(queue, "b", "b1");
  Push(queue, "b", "b2");
  Push(queue, "c", "c1");
  while (!RunNext(queue).empty()) {
  }
  EXPECT_EQ(ran_, (std::vector<std::string>{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}));
  EXPECT_TRUE(queue.empty());
}

TEST_F(FairQueueTest, ExecutionsGoBeforeQuestions) {
  FairQueue queue(kRoomy);
  Push(queue, "a", "question");
  Push(queue, "b", "execution", /*execution=*/true);
  EXPECT_TRUE(queue.CanPop(/*executions_only=*/true));
  EXPECT_EQ(RunNext(queue), "execution");
  EXPECT_FALSE(queue.CanPop(/*executions_only=*/true));
  EXPECT_FALSE(queue.Pop(/*executions_only=*/true).has_value());
  EXPECT_EQ(RunNext(queue), "question");
}

TEST_F(FairQueueTest, ACallerRunsNoMoreAtATimeThanHisShare) {
  FairQueue queue({.waiting_max = 9, .waiting_max_of_caller = 9, .running_max_of_caller = 1});
  Push(queue, "a", "a1");
  Push(queue, "a", "a2");
  Push(queue, "b", "b1");
  const auto first = queue.Pop(false);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->caller, "a");
  EXPECT_EQ(RunNext(queue), "b1");
  EXPECT_FALSE(queue.CanPop(false));
  EXPECT_EQ(RunNext(queue), "");
  queue.Ended("a");
  EXPECT_EQ(RunNext(queue), "a2");
}

TEST_F(FairQueueTest, ACallerWaitsInNoMorePlacesThanHisShare) {
  FairQueue queue({.waiting_max = 4, .waiting_max_of_caller = 2, .running_max_of_caller = 1});
  EXPECT_TRUE(Push(queue, "a", "a1"));
  EXPECT_TRUE(Push(queue, "a", "a2"));
  EXPECT_FALSE(Push(queue, "a", "a3"));
  EXPECT_TRUE(Push(queue, "b", "b1"));
  EXPECT_TRUE(Push(queue, "c", "c1"));
  EXPECT_FALSE(Push(queue, "d", "d1")) << "no place is left";
  EXPECT_TRUE(Push(queue, "d", "d1", /*execution=*/true)) << "executions wait elsewhere";
}

}  // namespace
}  // namespace remesh::server
