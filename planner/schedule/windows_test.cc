// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/windows.h"

#include <gtest/gtest.h>

#include "planner/schedule/messages.h"
#include "planner/schedule/rounds.h"
#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::AddChain;
using testing::MakeTestNetwork;

constexpr int64_t kMega = int64_t{1} << 20;

// The timeline of moves over hosts of one device and 1 GB/s.
Timeline Scheduled(Moves moves, int32_t hosts, int64_t window_bytes, int64_t parts_min = 1) {
  const Network network = MakeTestNetwork(hosts, 1, 1, 1000 * kMega);
  Atoms atoms;
  atoms.tapes.resize(1);  // of bits
  auto timeline = ScheduleWindows(moves, atoms, network, window_bytes, parts_min);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *std::move(timeline);
}

TEST(WindowsTest, WithoutRelaysThereAreNoMoreWindowsThanBytesAskFor) {
  Moves moves;
  AddChain(8 * 100 * kMega, {{0, 1}}, moves);
  EXPECT_EQ(Scheduled(moves, 2, 256 * kMega).schedule.windows(), 1);
  EXPECT_EQ(Scheduled(moves, 2, 20 * kMega).schedule.windows(), 6);
}

TEST(WindowsTest, APairSendsOneMessageInOneWindow) {
  Moves moves;
  AddChain(8 * kMega, {{0, 1}}, moves);
  AddChain(8 * kMega, {{0, 1}}, moves);
  AddChain(8 * kMega, {{1, 0}}, moves);
  AddChain(8 * kMega, {{1, 1}}, moves);  // in place
  const Timeline timeline = Scheduled(moves, 2, 256 * kMega);
  EXPECT_EQ(timeline.schedule.windows(), 1);
  EXPECT_EQ(timeline.messages, 2);
}

TEST(WindowsTest, RelaysAreCutToFlow) {
  Moves moves;
  AddChain(8 * 100 * kMega, {{0, 1}, {1, 2}}, moves);
  const Timeline timeline = Scheduled(moves, 3, 1000 * kMega);
  EXPECT_GT(timeline.schedule.parts, 16);
  EXPECT_LE(timeline.predicted_seconds, 0.1 * 1.06);
}

TEST(WindowsTest, SmallStatesAreNotCutToPieces) {
  Moves moves;
  AddChain(8 * kMega / 100, {{0, 1}, {1, 2}}, moves);
  EXPECT_EQ(Scheduled(moves, 3, 256 * kMega).schedule.parts, 1);
}

TEST(WindowsTest, MorePartsWhereMemoryAsksForThem) {
  Moves moves;
  AddChain(8 * 100 * kMega, {{0, 1}}, moves);
  EXPECT_EQ(Scheduled(moves, 2, 256 * kMega, 64).schedule.parts, 64);
}

// Regression: a pair's parts were walked, and kept, without a look, so 66 KB held a planning thread
// for 18 s for no caller, and 333 KB took 4 GB.
TEST(WindowsTest, TheMessagesOfOnePairAreCountedWithinTheBudget) {
  Moves moves;
  AddChain(int64_t{1} << 21, {{0, 1}}, moves);
  moves.moves[0].hi = 100;  // in few of the parts
  Atoms atoms;
  atoms.tapes.resize(1);
  Schedule schedule;
  schedule.parts = 1 << 20;
  schedule.min_part_bits = 1;
  const auto count = [&](Budget& budget) {
    return CountMessages(CollectPairs(moves.moves), moves.moves, moves.segments, schedule, atoms,
                         budget);
  };
  EXPECT_EQ(count(Budget::Unlimited()), 100);
  int looks = 0;
  Budget budget([&] { return ++looks <= 3 ? absl::OkStatus() : absl::CancelledError("gone"); });
  count(budget);
  EXPECT_EQ(looks, 4);
}

TEST(WindowsTest, NoDeviceHasMoreMessagesThanAWindowTakes) {
  Moves moves;
  for (int32_t to = 1; to <= 300; ++to) AddChain(8 * kMega, {{0, to}}, moves);
  const Timeline timeline = Scheduled(moves, 301, 1000 * kMega);
  EXPECT_EQ(timeline.schedule.rounds, 2);
  EXPECT_EQ(timeline.messages, 300);
  EXPECT_LE(timeline.round_begin[1], kMessagesPerWindowMax);
}

// Device 0 sends to 300 others, to one of them as much as to all others together. That message must
// be split over both rounds, or its round would last as long as everything else.
TEST(WindowsTest, NoRoundWaitsForOneLongMessage) {
  Moves moves;
  AddChain(8 * 299 * kMega, {{0, 1}}, moves);
  for (int32_t to = 2; to <= 300; ++to) AddChain(8 * kMega, {{0, to}}, moves);
  AddChain(8 * 598 * kMega, {{301, 302}}, moves);  // as busy all the time
  const Timeline timeline = Scheduled(moves, 303, 2000 * kMega);
  EXPECT_EQ(timeline.schedule.rounds, 2);
  EXPECT_NEAR(timeline.predicted_seconds, 0.598, 0.006);
  int64_t bits = 0;
  for (const Move& move : timeline.moves) bits += move.hi - move.lo;
  EXPECT_EQ(bits, 8 * (2 * 299 + 598) * kMega);
}

}  // namespace
}  // namespace remesh::planner
