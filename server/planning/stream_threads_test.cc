// SPDX-License-Identifier: Apache-2.0
#include "server/planning/stream_threads.h"

#include <gtest/gtest.h>

namespace remesh::server {
namespace {

constexpr int kOfCallerMax = static_cast<int>(StreamThreads::kOfCallerMax);

class StreamThreadsTest : public ::testing::Test {
 protected:
  // False: the stream was refused.
  bool Enter(const std::string& caller) {
    return threads_.Enter(caller, [this, caller] {
      ++begun_[caller];
      return true;
    });
  }

  StreamThreads threads_{1, 40};
  std::map<std::string, int> begun_;
};

TEST_F(StreamThreadsTest, ACallersStreamsWaitForHisOwnAndForNobodyElses) {
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

TEST_F(StreamThreadsTest, OneCallersWaitingStreamsAreBoundedAndRefuseNobodyElse) {
  for (const char* caller : {"a", "b", "c", "d", "e", "f"}) {
    for (int i = 0; i < kOfCallerMax + 10; ++i) EXPECT_TRUE(Enter(caller));
    EXPECT_FALSE(Enter(caller));
  }
  EXPECT_TRUE(Enter("g"));
  EXPECT_EQ(begun_["g"], 1);
}

TEST_F(StreamThreadsTest, WhatNobodyWantsAnyMoreLeavesItsPlaceToTheNext) {
  for (int i = 0; i < kOfCallerMax; ++i) EXPECT_TRUE(Enter("a"));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(threads_.Enter("a", [] { return false; }));
  EXPECT_TRUE(Enter("a"));
  threads_.Leave("a");
  EXPECT_EQ(begun_["a"], kOfCallerMax + 1);
}

}  // namespace
}  // namespace remesh::server
