// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_windows.h"

#include <gtest/gtest.h>

namespace remesh::worker {
namespace {

NcclEntry Entry(bool send, int peer) { return {send, 0, peer, nullptr, 1}; }
PeerGroup::Done Nothing() {
  return [](absl::Status) {};
}

TEST(NcclWindows, GivesWindowsOutWholeAndInOrder) {
  NcclWindows windows;
  windows.Expect({2, 0, 1});
  windows.Add(2, Entry(true, 1), Nothing());
  windows.Add(0, Entry(true, 1), Nothing());
  EXPECT_FALSE(windows.TakeNext().has_value()) << "one of two is missing";
  windows.Add(0, Entry(false, 1), Nothing());
  auto first = windows.TakeNext();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->window, 0);
  EXPECT_EQ(first->entries.size(), 2u);
  auto second = windows.TakeNext();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->window, 2);
  EXPECT_FALSE(windows.TakeNext().has_value());
}

TEST(NcclWindows, KeepsWhatWasNeverTaken) {
  NcclWindows windows;
  windows.Expect({1, 2});
  windows.Add(1, Entry(true, 1), Nothing());
  windows.Add(0, Entry(true, 1), Nothing());
  EXPECT_EQ(windows.TakeRest().size(), 2u);
  EXPECT_TRUE(windows.TakeRest().empty());
}

TEST(NcclWindowsDeathTest, RefusesASecondOperationOfAPair) {
  NcclWindows windows;
  windows.Expect({3});
  windows.Add(0, Entry(true, 1), Nothing());
  windows.Add(0, Entry(false, 1), Nothing());
  EXPECT_DEATH(windows.Add(0, Entry(true, 1), Nothing()), "CHECK failed");
}

TEST(NcclWindowsDeathTest, RefusesMoreThanWasExpected) {
  NcclWindows windows;
  windows.Expect({1});
  windows.Add(0, Entry(true, 1), Nothing());
  EXPECT_DEATH(windows.Add(0, Entry(true, 2), Nothing()), "CHECK failed");
}

}  // namespace
}  // namespace remesh::worker
