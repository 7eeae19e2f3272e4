// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/windows.h"

#include <gtest/gtest.h>

#include "planner/routing/test_network.h"

namespace remesh {
namespace {

using testing::AddChain;
using testing::MakeTestNetwork;

constexpr int64_t kMega = int64_t{1} << 20;

// The schedule of a draft over hosts of one device and 1 GB/s.
Schedule Scheduled(PlanDraft& draft, int32_t hosts, int64_t window_bytes, int64_t slices_min = 1) {
  const Network network = MakeTestNetwork(hosts, 1, 1, 1000 * kMega);
  draft.host_of = network.host_of;
  draft.atoms.subs.resize(1);  // of bits
  EXPECT_TRUE(ScheduleWindows(network, window_bytes, slices_min, draft).ok());
  return draft.schedule;
}

TEST(WindowsTest, WithoutRelaysThereAreNoMoreWindowsThanBytesAskFor) {
  PlanDraft draft;
  AddChain(8 * 100 * kMega, {{0, 1}}, draft);
  EXPECT_EQ(Scheduled(draft, 2, 256 * kMega).windows(), 1);
  EXPECT_EQ(Scheduled(draft, 2, 20 * kMega).windows(), 10);
}

TEST(WindowsTest, RelaysAreCutToFlow) {
  PlanDraft draft;
  AddChain(8 * 100 * kMega, {{0, 1}, {1, 2}}, draft);
  const Schedule schedule = Scheduled(draft, 3, 1000 * kMega);
  EXPECT_GT(schedule.slices, 16);
  EXPECT_LE(draft.summary.predicted_seconds, 0.1 * 1.06);
}

TEST(WindowsTest, SmallStatesAreNotCutToPieces) {
  PlanDraft draft;
  AddChain(8 * kMega / 100, {{0, 1}, {1, 2}}, draft);
  EXPECT_EQ(Scheduled(draft, 3, 256 * kMega).slices, 1);
}

TEST(WindowsTest, MoreSlicesWhereMemoryAsksForThem) {
  PlanDraft draft;
  AddChain(8 * 100 * kMega, {{0, 1}}, draft);
  EXPECT_EQ(Scheduled(draft, 2, 256 * kMega, 64).slices, 64);
}

TEST(WindowsTest, NoHostHasMoreOperationsThanAWindowTakes) {
  PlanDraft draft;
  for (int32_t to = 1; to <= 300; ++to) AddChain(8 * kMega, {{0, to}}, draft);
  EXPECT_EQ(Scheduled(draft, 301, 1000 * kMega).rounds, 2);
  EXPECT_EQ(draft.summary.operations, 300);
  EXPECT_LE(draft.round_begin[1], kOperationsPerWindowMax);
}

// Device 0 sends to 300 others, to one of them as much as to all others together: in both rounds,
// or the round with that one would last as long as everything else.
TEST(WindowsTest, NoRoundWaitsForOneLongMessage) {
  PlanDraft draft;
  AddChain(8 * 299 * kMega, {{0, 1}}, draft);
  for (int32_t to = 2; to <= 300; ++to) AddChain(8 * kMega, {{0, to}}, draft);
  AddChain(8 * 598 * kMega, {{301, 302}}, draft);  // as busy all the time
  EXPECT_EQ(Scheduled(draft, 303, 2000 * kMega).rounds, 2);
  EXPECT_NEAR(draft.summary.predicted_seconds, 0.598, 0.006);
  int64_t bits = 0;
  for (const Move& move : draft.moves) bits += move.hi - move.lo;
  EXPECT_EQ(bits, 8 * (2 * 299 + 598) * kMega);
}

}  // namespace
}  // namespace remesh
