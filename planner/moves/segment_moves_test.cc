// SPDX-License-Identifier: Apache-2.0
#include "planner/moves/segment_moves.h"

#include <gtest/gtest.h>

#include <numeric>

#include "planner/moves/optimal_moves.h"
#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using testing::MakeClass;
using testing::MakeTestNetwork;

constexpr int64_t kBits = 64 * 1000;

Group Devices(int32_t first, int32_t count) {
  Group group(count);
  std::iota(group.begin(), group.end(), first);
  return group;
}

// One tape of kBits between `hosts` hosts of `devices` devices; device 0 holds it.
Atoms AtomsOf(Group needers) {
  Atoms atoms;
  atoms.groups = {{0}, std::move(needers)};
  atoms.tapes = {{.holders = 0, .needers = 1, .bits = kBits, .unit_bits = 8}};
  return atoms;
}

// Bits that the fabric of each device sends, in copies of the tape.
std::vector<double> SentInside(const Moves& moves, const Network& network) {
  std::vector<double> sent(network.host_of.size(), 0);
  for (const Move& move : moves.moves) {
    if (move.from_device == move.to_device) continue;
    if (network.host_of[move.from_device] != network.host_of[move.to_device]) continue;
    sent[move.from_device] += static_cast<double>(move.hi - move.lo) / kBits;
  }
  return sent;
}

// Checks that every needer gets every bit once, from a device that had it a hop before.
void ExpectComplete(const Moves& made, const Atoms& atoms, const Network& network) {
  std::vector<std::vector<int>> since(network.host_of.size(), std::vector<int>(kBits / 8, -1));
  std::fill(since[0].begin(), since[0].end(), 0);
  std::vector<Move> moves = made.moves;
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& a, const Move& b) { return a.hop < b.hop; });
  for (const Move& move : moves) {
    for (int64_t unit = move.lo / 8; unit < move.hi / 8; ++unit) {
      const int had = since[move.from_device][unit];
      ASSERT_TRUE(had >= 0 && had <= move.hop);
      if (move.from_device == move.to_device) continue;
      ASSERT_EQ(since[move.to_device][unit], -1);
      since[move.to_device][unit] = move.hop + 1;
    }
  }
  for (const int32_t needer : atoms.groups[1]) {
    for (const int at : since[needer]) ASSERT_GE(at, 0);
  }
}

TEST(SegmentMovesTest, NeighboursPassOnWhatOneDeviceHas) {
  const Network network = MakeTestNetwork(1, 8, 8, 10, 10);
  const Atoms atoms = AtomsOf(Devices(0, 8));
  const Moves moves = MakeOptimalMoves(atoms, {.classes = {}, .class_of = {-1}}, {}, network);
  ExpectComplete(moves, atoms, network);
  for (const double copies : SentInside(moves, network)) EXPECT_LE(copies, 1.001);
}

// Bits that enter a host of eight devices by one NIC arrive on one of the devices.
TEST(SegmentMovesTest, NeighboursPassOnWhatEntersByOneNic) {
  const Network network = MakeTestNetwork(2, 8, 1, 10, 10);
  const Atoms atoms = AtomsOf(Devices(8, 8));
  const DemandClasses demand{{MakeClass({0}, {1}, kBits)}, {0}};
  const Moves moves =
      MakeOptimalMoves(atoms, demand, {{{{0, kBits, {{0, 1}}}}}, {kBits, 10}}, network);
  ExpectComplete(moves, atoms, network);
  for (const double copies : SentInside(moves, network)) EXPECT_LE(copies, 1.001);
}

TEST(SegmentMovesTest, WhereTheFabricHasTimeCopiesTakeOneHop) {
  const Network network = MakeTestNetwork(2, 8, 1, 10, 1000);
  const Atoms atoms = AtomsOf(Devices(8, 8));
  const DemandClasses demand{{MakeClass({0}, {1}, kBits)}, {0}};
  const Moves moves =
      MakeOptimalMoves(atoms, demand, {{{{0, kBits, {{0, 1}}}}}, {kBits, 10}}, network);
  ExpectComplete(moves, atoms, network);
  for (const Move& move : moves.moves) EXPECT_LE(move.hop, 1);
}

// Eight NICs on either side, one holder: every device sends an eighth out, and no device sends its
// neighbours more than one copy.
TEST(SegmentMovesTest, ACrowdedHostFeedsAllOfItsNics) {
  const Network network = MakeTestNetwork(2, 8, 8, 10, 90);
  const Atoms atoms = AtomsOf(Devices(0, 16));
  const DemandClasses demand{{MakeClass({0}, {1}, kBits)}, {0}};
  const Moves moves =
      MakeOptimalMoves(atoms, demand, {{{{0, kBits, {{0, 1}}}}}, {kBits, 80}}, network);
  ExpectComplete(moves, atoms, network);
  for (const double copies : SentInside(moves, network)) EXPECT_LE(copies, 1.001);
  std::vector<int64_t> out(16, 0);
  for (const Move& move : moves.moves) {
    if (move.from_device < 8 && move.to_device >= 8) out[move.from_device] += move.hi - move.lo;
  }
  for (int32_t d = 0; d < 8; ++d) EXPECT_NEAR(static_cast<double>(out[d]), kBits / 8, 8) << d;
}

// Regression: what devices sent that do not need the tape counted as if its needers had sent it, so
// that a device that alone holds something made all copies of it itself, where the others of its
// host were busy.
TEST(SegmentMovesTest, NeedersPassOnWhateverOtherDevicesOfTheHostSend) {
  const Network network = MakeTestNetwork(1, 24, 24, 10, 10);
  Atoms atoms;
  atoms.groups = {Devices(0, 8), Devices(0, 16), {16}, Devices(17, 7)};
  atoms.tapes = {{.holders = 0, .needers = 1, .bits = 24 * kBits, .unit_bits = 8},
                 {.holders = 2, .needers = 3, .bits = 4 * kBits, .unit_bits = 8}};
  const Moves moves = MakeOptimalMoves(atoms, {.classes = {}, .class_of = {-1, -1}}, {}, network);
  EXPECT_LE(SentInside(moves, network)[16], 4.1);
}

}  // namespace
}  // namespace remesh::planner
