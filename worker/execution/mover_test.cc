// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/mover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "worker/execution/testing/mover_cases.h"
#include "worker/execution/testing/mover_fixture.h"

namespace remesh::worker {

using planner::Box;
using planner::Space;

namespace {

// Arrays from one device to another, each of a few bytes.
TestCase SmallArrays(int count) {
  TestCase c;
  for (int i = 0; i < count; ++i) {
    c.arrays.push_back({absl::StrCat("a", i), {7 + i % 5}, "bf16"});
    c.source.push_back({i, 0, Box::Whole(c.arrays.back().shape)});
    c.target.push_back({i, 2, Box::Whole(c.arrays.back().shape)});
  }
  AddNaiveOperations(c);
  return c;
}

TEST_P(MoverTest, RowsBecomeColumnsElementByElement) { Run(RowsToColumns(2, 3)); }

TEST_P(MoverTest, FourHostsInManyWindows) { Run(RowsToColumns(4, 17)); }

TEST_P(MoverTest, OnePieceAndOneBufferAtATimeIsEnough) {
  Run(RowsToColumns(4, 5), {.limits = {.slices_in_flight = 1, .staging_bytes = 1}});
}

TEST_P(MoverTest, LargeBoxesGoInPieces) {
  TestCase c;
  c.windows = 2;
  c.arrays = {{"large", {3001, 5003}, "u8"}};
  Append(c.source, Cut(c, 0, 0, {0, 1, 2, 3}));
  Append(c.target, Cut(c, 0, 1, {2, 3}));
  Append(c.target, Cut(c, 0, 0, {1, 0}));
  AddNaiveOperations(c);
  Run(c, {.limits = {.slices_in_flight = 3, .staging_bytes = 8 << 20}});
  EXPECT_EQ(hosts_[1]->bytes.received(), hosts_[0]->bytes.sent());
  EXPECT_EQ(hosts_[1]->bytes.received() + hosts_[1]->bytes.copied, 3001 * 5003);
}

// Rows of more than a page are sent from their place and received into their place.
TEST_P(MoverTest, LongRowsNeedNoBuffers) {
  if (OnGpus()) GTEST_SKIP() << "GPUs have transit areas";
  TestCase c;
  c.windows = 1;
  c.arrays = {{"rows", {300, 20000}, "u8"}};
  Append(c.source, Cut(c, 0, 0, {0, 1}));
  Append(c.target, Cut(c, 0, 1, {2, 3}));
  AddNaiveOperations(c);
  Run(c);
  TestHost& host = *hosts_[0];
  const auto list = host.Bind(c);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_GT(SlicePlaces::HostBytesFor(*list, {}, /*gathers=*/false), 0);
  EXPECT_EQ(SlicePlaces::HostBytesFor(*list, {}, /*gathers=*/true), 0);
  EXPECT_GT(SlicePlaces::HostBytesFor(*list, {.run_bytes = 20001}, /*gathers=*/true), 0);
}

TEST_P(MoverTest, RelaysPassOnWhatTheOriginSaid) {
  TestCase c;
  c.hosts = 3;
  c.windows = 3;
  c.arrays = {{"r", {1025, 4100}, "u8"}, {"n", {7, 5}, "u4"}};
  const Box all = Box::Whole(c.arrays[0].shape), narrow = Box::Whole(c.arrays[1].shape);
  const planner::Interval first = {0, 60},
                          rest = {60, 140};  // its bits: cut in the midst of a byte
  c.source = {{0, 0, all}, {1, 0, narrow}};
  c.target = {{0, 4, all}, {0, 5, all}, {1, 2, narrow}, {1, 4, narrow}};
  c.operations = {{0, 0, all, 0, 3, Space::kSource, Space::kStaging},
                  {0, 1, narrow, 0, 2, Space::kSource, Space::kTarget, 0, {}, {60}},
                  {1, 0, all, 3, 4, Space::kStaging, Space::kTarget},
                  {1, 1, narrow, 2, 4, Space::kTarget, Space::kTarget, 0, first},
                  {1, 1, narrow, 2, 4, Space::kTarget, Space::kTarget, 0, rest},
                  {2, 0, all, 4, 5, Space::kTarget, Space::kTarget}};
  Run(c);
  EXPECT_EQ(hosts_[2]->bytes.copied, 1025 * 4100);
}

// Thousands of equal arrays make one message.
TEST_P(MoverTest, ManySmallStretchesTravelTogether) {
  Run(SmallArrays(3000));
  EXPECT_EQ(hosts_[1]->bytes.chunks_verified, 3000);
}

// Between the pieces of a slice the scratch still has its earlier content, perhaps another job's.
TEST_P(MoverTest, NothingOfTheScratchTravels) {
  if (OnGpus())
    GTEST_SKIP() << "looks into memory of the host; device_conformance_test holds GPUs to it";
  std::vector<std::byte> sent;
  Start(SmallArrays(7), {}, Tap{.sent = &sent});
  TestHost& sender = *hosts_[0];
  for (size_t i = 0; i < sender.source().shards.size(); ++i)
    sender.Write(sender.source(), i, std::vector<std::byte>(sender.source().shards[i].bytes()));
  ASSERT_TRUE(Transfer());
  EXPECT_GT(sent.size(), 7u * 16);
  EXPECT_EQ(std::count(sent.begin(), sent.end(), std::byte{0}), std::ssize(sent));
}

// Host 2 passes on by NCCL what comes to it by a stream. Regression: host 0, which waits for it,
// gave up when the time for a window between GPUs was over.
TEST_P(MoverTest, AWindowBetweenGpusWaitsForASlowStream) {
  if (GetParam() != "mixed") GTEST_SKIP() << "there is one link";
  window_timeout_ = std::chrono::milliseconds(50);
  TestCase c;
  c.hosts = 3;
  c.windows = 2;
  c.arrays = {{"slow", {1025, 41}, "u8"}, {"first", {100}, "u8"}};
  const Box slow = Box::Whole(c.arrays[0].shape), first = Box::Whole(c.arrays[1].shape);
  c.source = {{0, 2, slow}, {1, 4, first}};
  c.target = {{0, 4, slow}, {0, 0, slow}, {1, 0, first}};
  c.operations = {{0, 1, first, 4, 0, Space::kSource, Space::kTarget},
                  {0, 0, slow, 2, 4, Space::kSource, Space::kTarget},
                  {1, 0, slow, 4, 0, Space::kTarget, Space::kTarget}};
  Start(c);
  GrantAll();
  const auto without_host_1 = [&](const auto& done) {
    while (!done()) {
      for (const int host : {0, 2}) hosts_[host]->Turn();
    }
  };
  without_host_1([&] { return hosts_[0]->done_windows == 1; });
  const auto late = std::chrono::steady_clock::now() + 4 * window_timeout_;
  without_host_1([&] { return std::chrono::steady_clock::now() > late; });
  EXPECT_FALSE(hosts_[0]->failure.has_value()) << *hosts_[0]->failure;
  ExpectTransferred();
}

TEST_P(MoverTest, NothingToMoveIsDoneAtOnce) {
  TestCase c;
  c.windows = 0;
  Run(c);
}

TEST_P(MoverTest, WindowsWaitForTheirGrant) {
  Start(RowsToColumns(2, 4));
  ASSERT_TRUE(Transfer(2));
  for (int i = 0; i < 100; ++i) {
    for (auto& host : hosts_) host->Turn();
  }
  EXPECT_EQ(hosts_[0]->done_windows, 2);
  ExpectTransferred();
}

// Host 1 may not begin yet, so host 0 waits for it.
TEST_P(MoverTest, AHostNamesThoseThatItWaitsFor) {
  std::atomic<uint64_t> slices_done = 0;
  Start(RowsToColumns(2, 1), {.slices_done = &slices_done});
  for (auto& host : hosts_) EXPECT_TRUE(host->mover().Waits().ok());
  hosts_[0]->mover().Grant(case_.windows);
  const auto waits = [&] { return GetErrorInfo(hosts_[0]->mover().Waits()); };
  ASSERT_TRUE(Until([&] { return waits().reason == "LINK_STALLED"; }));
  EXPECT_EQ(waits().metadata["receives_from"], "host-1");
  EXPECT_TRUE(hosts_[1]->mover().Waits().ok());
  ASSERT_TRUE(Transfer());
  for (auto& host : hosts_) EXPECT_TRUE(host->mover().Waits().ok());
  EXPECT_GE(slices_done, 4) << "two hosts, a local slice and one of another host at least";
}

INSTANTIATE_TEST_SUITE_P(Transports, MoverTest,
                         ::testing::Values("memory", "tcp", "tcp_in_runs", "ucx", "nccl", "mixed"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace remesh::worker
