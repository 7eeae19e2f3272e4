// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/relay_areas.h"

#include <gtest/gtest.h>

#include "planner/schedule/first_fit.h"

namespace remesh::planner {
namespace {

TEST(FirstFitTest, TakesTheLowestGapThatHasRoom) {
  FirstFit area;
  EXPECT_EQ(area.Take(10), 0);
  EXPECT_EQ(area.Take(20), 10);
  EXPECT_EQ(area.Take(30), 30);
  area.Give(10, 20);
  EXPECT_EQ(area.Take(21), 60);
  EXPECT_EQ(area.Take(8), 10);
  EXPECT_EQ(area.Take(12), 18);
  EXPECT_EQ(area.most(), 81);
}

TEST(FirstFitTest, GapsThatAdjoinBecomeOne) {
  FirstFit area;
  for (int i = 0; i < 4; ++i) area.Take(10);
  area.Give(0, 10);
  area.Give(20, 10);
  area.Give(10, 10);
  EXPECT_EQ(area.Take(30), 0);
  area.Give(30, 10);  // the last piece: free memory at the end is no gap
  EXPECT_EQ(area.Take(15), 30);
  EXPECT_EQ(area.most(), 45);
}

TEST(FirstFitTest, AreasBeyondAllMemoryAreLaidOutNoFurther) {
  FirstFit area;
  area.Take(FirstFit::kMost - 1);
  EXPECT_EQ(area.Take(2), FirstFit::kMost);
  EXPECT_EQ(area.Take(FirstFit::kMost), FirstFit::kMost);
  area.Give(FirstFit::kMost, 2);
  EXPECT_EQ(area.most(), FirstFit::kMost);
}

// Device 1 relays segments of 6400 bits from device 0 to device 2.
constexpr int64_t kRelayedBits = 6400;

std::vector<Move> Relayed(int32_t segment, int32_t round_in = 0, int32_t round_out = 0) {
  return {{.segment = segment,
           .from_device = 0,
           .to_device = 1,
           .to_space = Space::kStaging,
           .round = round_in,
           .hi = kRelayedBits},
          {.segment = segment,
           .from_device = 1,
           .to_device = 2,
           .from_space = Space::kStaging,
           .hop = 1,
           .round = round_out,
           .hi = kRelayedBits}};
}

RelayAreas LayOut(const Schedule& schedule, int32_t segments, const std::vector<Move>& moves) {
  std::vector<Segment> all;
  for (int32_t s = 0; s < segments; ++s)
    all.push_back({0, s * kRelayedBits, (s + 1) * kRelayedBits});
  const SegmentCuts cuts = CutsOfMoves(moves, all);
  return LayOutRelays({.schedule = schedule,
                       .segments = all,
                       .numbers = {},
                       .unit_bits = {1},
                       .cuts = cuts.cuts,
                       .cut_begin = cuts.begin},
                      moves, 3);
}

// Part p arrives in window p, leaves in p + 1 and may be overwritten from p + 3 on.
TEST(RelayAreasTest, AsManySlotsAsPartsAreThereAtOnce) {
  const RelayAreas areas = LayOut({.parts = 10, .rounds = 1, .hops = 2}, 1, Relayed(0));
  ASSERT_EQ(areas.pieces.size(), 1u);
  const StagedPiece& piece = areas.PieceAt(1, 0, 0);
  EXPECT_EQ(piece.slots, 3);
  EXPECT_EQ(piece.slot_bytes, 128);  // 640 bits, in units of 64 bytes
  EXPECT_EQ(areas.bytes, (std::vector<int64_t>{0, 3 * 128, 0}));
  EXPECT_EQ(piece.AddressOf(0), 0);
  EXPECT_EQ(piece.AddressOf(4), 128);
}

TEST(RelayAreasTest, NoMoreSlotsThanParts) {
  EXPECT_EQ(LayOut({.parts = 2, .rounds = 1, .hops = 2}, 1, Relayed(0)).pieces[0].slots, 2);
}

// Eight rounds: a part arrives in the last round and leaves in the first of the next cycle.
TEST(RelayAreasTest, RoundsSayHowLongAPartStays) {
  const Schedule schedule{.parts = 10, .rounds = 8, .hops = 2};
  EXPECT_EQ(LayOut(schedule, 1, Relayed(0, 7, 0)).pieces[0].slots, 1);
  EXPECT_EQ(LayOut(schedule, 1, Relayed(0, 0, 7)).pieces[0].slots, 3);
}

// Segments of one part each move in turns of their own and use the same memory one after another.
TEST(RelayAreasTest, SegmentsThatDoNotMeetShareMemory) {
  const Schedule schedule{.parts = 40, .rounds = 1, .hops = 2, .min_part_bits = kRelayedBits};
  std::vector<Move> moves;
  for (int32_t s = 0; s < 8; ++s) {
    for (const Move& move : Relayed(s)) moves.push_back(move);
  }
  const RelayAreas areas = LayOut(schedule, 8, moves);
  EXPECT_EQ(areas.pieces.size(), 8u);
  EXPECT_LT(areas.bytes[1], 4 * kRelayedBits / 8);
  EXPECT_GE(areas.bytes[1], kRelayedBits / 8);
}

// A stripe is cut wherever any move of its segment is cut, and each piece stays as long as it is
// needed.
TEST(RelayAreasTest, PiecesOfAStripeStayForThemselves) {
  std::vector<Move> moves = Relayed(0);
  moves.push_back(moves[1]);
  moves[1].lo = 6000;
  moves[2].hi = 6000;
  moves[2].hop = 3;
  const RelayAreas areas = LayOut({.parts = 10, .rounds = 1, .hops = 4}, 1, moves);
  EXPECT_EQ(areas.pieces.size(), 2u);
  EXPECT_EQ(areas.PieceAt(1, 0, 0).slots, 5);
  EXPECT_EQ(areas.PieceAt(1, 0, 6000).slots, 3);
}

}  // namespace
}  // namespace remesh::planner
