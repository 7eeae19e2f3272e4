// SPDX-License-Identifier: Apache-2.0
#include "server/planning/stream_threads.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

namespace remesh::server {
namespace {

constexpr int kOfCallerMax = static_cast<int>(StreamThreads::kOfCallerMax);

class StreamThreadsTest : public ::testing::Test {
 protected:
  // False: the stream was refused.
  bool Enter(const std::string& caller, const void* stream = nullptr) {
    return threads_.Enter(caller, stream, [this, caller] {
      ++begun_[caller];
      return true;
    });
  }

  StreamThreads threads_{1, 40};
  std::map<std::string, int> begun_;
};

TEST_F(StreamThreadsTest, ACallersStreamsWaitForHisOwnAlone) {
  for (int i = 0; i < kOfCallerMax + 2; ++i) EXPECT_TRUE(Enter("a"));
  EXPECT_EQ(begun_["a"], kOfCallerMax);
  EXPECT_TRUE(Enter("b"));
  EXPECT_EQ(begun_["b"], 1);
  threads_.Leave("b");
  EXPECT_EQ(begun_["a"], kOfCallerMax);
  threads_.Leave("a");
  threads_.Leave("a");
  threads_.Leave("a");
  EXPECT_EQ(begun_["a"], kOfCallerMax + 2);
}

TEST_F(StreamThreadsTest, OneCallersWaitingStreamsAreBoundedAndNoOtherCallerIsRefused) {
  for (const char* caller : {"a", "b", "c", "d", "e", "f"}) {
    for (int i = 0; i < kOfCallerMax + 10; ++i) EXPECT_TRUE(Enter(caller));
    EXPECT_FALSE(Enter(caller));
  }
  EXPECT_TRUE(Enter("g"));
  EXPECT_EQ(begun_["g"], 1);
}

TEST_F(StreamThreadsTest, WhatNoCallerWantsAnyMoreLeavesItsPlaceToTheNext) {
  for (int i = 0; i < kOfCallerMax; ++i) EXPECT_TRUE(Enter("a"));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(threads_.Enter("a", nullptr, [] { return false; }));
  EXPECT_TRUE(Enter("a"));
  threads_.Leave("a");
  EXPECT_EQ(begun_["a"], kOfCallerMax + 1);
}

// Regression: it kept its place, and all that its stream held, until its turn came.
TEST_F(StreamThreadsTest, AStreamThatEndsWhileItWaitsHoldsNothing) {
  for (int i = 0; i < kOfCallerMax; ++i) EXPECT_TRUE(Enter("a"));
  const auto held = std::make_shared<int>();
  EXPECT_TRUE(threads_.Enter("a", held.get(), [held] { return true; }));
  const int others = 0;
  while (Enter("a", &others)) continue;  // no place is left
  threads_.Forget("a", held.get());
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_TRUE(Enter("a"));
  EXPECT_FALSE(Enter("a"));
  threads_.Forget("a", held.get());  // not there any more
  threads_.Forget("b", held.get());
  EXPECT_FALSE(Enter("a"));
}

}  // namespace
}  // namespace remesh::server
