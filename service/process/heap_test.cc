// SPDX-License-Identifier: Apache-2.0
#include "service/process/heap.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/sanitized.h"

namespace remesh::service {
namespace {

TEST(HeapTest, WhatAThreadFreedIsGivenBackToTheKernel) {
  if (REMESH_SANITIZED) GTEST_SKIP() << "a sanitizer owns the heap";
  constexpr int kBlocks = 100'000;
  constexpr int64_t kBytes = kBlocks * int64_t{1024};
  std::unique_ptr<char[]> last;  // keeps the thread's heap from shrinking by itself
  std::thread([&last] {
    std::vector<std::unique_ptr<char[]>> blocks;
    for (int i = 0; i < kBlocks; ++i) blocks.push_back(std::make_unique<char[]>(1024));
    last = std::make_unique<char[]>(1024);
  }).join();
  const int64_t kept = FreedBytesKept();
  EXPECT_GT(kept, kBytes / 2);
  HeapTrimmer().Trim();
  // Other tests' memory is kept too, such as stacks of threads that have ended.
  EXPECT_GT(kept - FreedBytesKept(), kBytes / 2);
}

}  // namespace
}  // namespace remesh::service
