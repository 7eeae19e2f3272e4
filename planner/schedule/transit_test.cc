// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/transit.h"

#include <gtest/gtest.h>

#include "planner/values/packing.h"

namespace remesh::planner {
namespace {

// 512 KiB per segment.
constexpr int64_t kSentBits = int64_t{4} << 20;

// From device 0 to others. Hosts have one device each, except host 0, which also has device 3.
Move Sent(int32_t to, int32_t round, int32_t segment = 0, int32_t hop = 0) {
  return {.segment = segment, .to_device = to, .hop = hop, .round = round, .hi = kSentBits};
}

std::vector<int64_t> Transit(const Schedule& schedule, const std::vector<Move>& moves,
                             int64_t steps = kTransitStepsMax) {
  std::vector<Segment> segments;
  for (int32_t s = 0; s < 8; ++s) segments.push_back({0, s * kSentBits, (s + 1) * kSentBits});
  const SegmentCuts cuts = CutsOfMoves(moves, segments);
  const std::vector<int32_t> host_of = {0, 1, 2, 0};
  return TransitBytes({.schedule = schedule,
                       .segments = segments,
                       .numbers = {},
                       .unit_bits = {8},
                       .cuts = cuts.cuts,
                       .cut_begin = cuts.begin},
                      moves, host_of, steps);
}

// Expects this many stretches of `bits` bits; plans add room for the rounding of elements and
// alignment.
void ExpectAbout(int64_t found, int64_t stretches, int64_t bits) {
  const int64_t exact = stretches * TravellingBytes(bits);
  EXPECT_GE(found, exact);
  EXPECT_LE(found, exact + stretches * 2 * kMessageAlignment);
}

TEST(TransitAreaTest, EachHalfIsForItsWindows) {
  TransitArea area;
  area.Fit(0, 10);
  area.Fit(1, 30);
  area.Fit(2, 20);
  area.Fit(3, 5);
  EXPECT_EQ(area.bytes(), 50);
  EXPECT_EQ(area.BeginOf(2), 0);
  EXPECT_EQ(area.BeginOf(3), 20);
}

TEST(TransitTest, AWindowOfItsOwnTakesOneHalf) {
  const std::vector<int64_t> bytes = Transit({.parts = 1, .rounds = 1}, {Sent(1, 0)});
  ExpectAbout(bytes[0], 1, kSentBits);
  ExpectAbout(bytes[1], 1, kSentBits);
  EXPECT_EQ(bytes[2], 0);
}

// A plan of one window is measured in one pass; the same moves in the first of two rounds are not.
TEST(TransitTest, OneWindowTakesWhatItWouldTakeBesideAnEmptyRound) {
  Move back = Sent(0, 0, 3);
  back.from_device = 1;
  Move half = Sent(1, 0, 4);
  half.lo = kSentBits / 2;
  const std::vector<Move> moves = {Sent(1, 0), Sent(1, 0, 1), Sent(2, 0, 2), back,
                                   half,       Sent(3, 0, 5)};  // the last inside a host
  const std::vector<int64_t> bytes = Transit({.parts = 1, .rounds = 1}, moves);
  EXPECT_EQ(bytes, Transit({.parts = 1, .rounds = 2}, moves));
  ExpectAbout(bytes[2], 1, kSentBits);
  EXPECT_GT(bytes[1], 3 * kSentBits / 8);
}

TEST(TransitTest, PartsTakeBothHalves) {
  ExpectAbout(Transit({.parts = 8, .rounds = 1}, {Sent(1, 0)})[0], 2, kSentBits / 8);
}

TEST(TransitTest, RoundsOfOneParityTakeTheLargerOfThem) {
  const std::vector<int64_t> bytes =
      Transit({.parts = 8, .rounds = 4}, {Sent(1, 0), Sent(1, 2), Sent(2, 2, 1)});
  ExpectAbout(bytes[0], 2, kSentBits / 8);
  ExpectAbout(bytes[1], 1, kSentBits / 8);
}

TEST(TransitTest, CopiesInsideAHostTakeNothing) {
  EXPECT_EQ(Transit({.parts = 8, .rounds = 1}, {Sent(3, 0)}), std::vector<int64_t>(4, 0));
}

// With fewer parts than hops no two hops are at work at once.
TEST(TransitTest, HopsCountInTheCyclesInWhichTheyRun) {
  const std::vector<Move> moves = {Sent(1, 0, 0, 0), Sent(1, 0, 1, 1), Sent(1, 0, 2, 2)};
  ExpectAbout(Transit({.parts = 1, .rounds = 1, .hops = 3}, moves)[0], 2, kSentBits);
  // All three hops work in the middle cycle, two of them in the cycles beside it.
  ExpectAbout(Transit({.parts = 3, .rounds = 1, .hops = 3}, moves)[0], 5, kSentBits / 3);
}

// Segments of one part each move in turns of their own. Without steps to look at each turn, they
// may all meet.
TEST(TransitTest, ShortSegmentsCountInTheirTurns) {
  const Schedule schedule{.parts = 64, .rounds = 1, .hops = 1, .min_part_bits = kSentBits / 2};
  std::vector<Move> moves;
  for (int32_t s = 0; s < 8; ++s) moves.push_back(Sent(1, 0, s));
  const int64_t exact = Transit(schedule, moves)[0], coarse = Transit(schedule, moves, 1)[0];
  EXPECT_LT(exact, 3 * kSentBits / 8);
  EXPECT_GE(coarse, exact);
  EXPECT_LE(coarse, 2 * 8 * (kSentBits / 8 / 2 + 2 * kMessageAlignment));
}

}  // namespace
}  // namespace remesh::planner
