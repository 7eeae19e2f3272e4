// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/segment_moves.h"

#include <gtest/gtest.h>

#include <numeric>

#include "planner/routing/test_network.h"
#include "planner/schedule/moves.h"
#include "planner/schedule/resources.h"

namespace remesh {
namespace {

using testing::MakeClass;
using testing::MakeTestNetwork;

constexpr int64_t kBits = 64 * 1000;

Group Devices(int32_t first, int32_t count) {
  Group group(count);
  std::iota(group.begin(), group.end(), first);
  return group;
}

// One sub of kBits between `hosts` hosts of `devices` devices, device 0 having it.
PlanDraft DraftOf(Group needers, const Network& network) {
  PlanDraft draft;
  draft.host_of = network.host_of;
  draft.atoms.groups = {{0}, std::move(needers)};
  draft.atoms.subs = {{.holders = 0, .needers = 1, .bits = kBits, .unit_bits = 8}};
  return draft;
}

// What the fabric of each device sends, in copies of the sub.
std::vector<double> SentInside(const PlanDraft& draft) {
  std::vector<double> sent(draft.host_of.size(), 0);
  for (const Move& move : draft.moves) {
    if (move.from_device == move.to_device) continue;
    if (draft.host_of[move.from_device] != draft.host_of[move.to_device]) continue;
    sent[move.from_device] += static_cast<double>(move.hi - move.lo) / kBits;
  }
  return sent;
}

// That every needer gets every bit once, from somebody who had it a stage before.
void ExpectComplete(const PlanDraft& draft) {
  std::vector<std::vector<int>> since(draft.host_of.size(), std::vector<int>(kBits / 8, -1));
  std::fill(since[0].begin(), since[0].end(), 0);
  std::vector<Move> moves = draft.moves;
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& a, const Move& b) { return a.stage < b.stage; });
  for (const Move& move : moves) {
    for (int64_t unit = move.lo / 8; unit < move.hi / 8; ++unit) {
      const int had = since[move.from_device][unit];
      ASSERT_TRUE(had >= 0 && had <= move.stage);
      if (move.from_device == move.to_device) continue;
      ASSERT_EQ(since[move.to_device][unit], -1);
      since[move.to_device][unit] = move.stage + 1;
    }
  }
  for (const int32_t needer : draft.atoms.groups[1]) {
    for (const int at : since[needer]) ASSERT_GE(at, 0);
  }
}

TEST(SegmentMovesTest, NeighboursPassOnWhatOneDeviceHas) {
  const Network network = MakeTestNetwork(1, 8, 8, 10, 10);
  PlanDraft draft = DraftOf(Devices(0, 8), network);
  MakeOptimalMoves({.classes = {}, .class_of = {-1}}, {}, {}, network, draft);
  ExpectComplete(draft);
  for (const double copies : SentInside(draft)) EXPECT_LE(copies, 1.001);
}

// What enters a host of eight by one NIC lies on one of them.
TEST(SegmentMovesTest, NeighboursPassOnWhatEntersByOneNic) {
  const Network network = MakeTestNetwork(2, 8, 1, 10, 10);
  PlanDraft draft = DraftOf(Devices(8, 8), network);
  const DemandClasses demand{{MakeClass({0}, {1}, kBits)}, {0}};
  MakeOptimalMoves(demand, {{{0, kBits, {{0, 1}}}}}, {kBits, 10}, network, draft);
  ExpectComplete(draft);
  for (const double copies : SentInside(draft)) EXPECT_LE(copies, 1.001);
}

TEST(SegmentMovesTest, WhereTheFabricHasTimeCopiesTakeOneStage) {
  const Network network = MakeTestNetwork(2, 8, 1, 10, 1000);
  PlanDraft draft = DraftOf(Devices(8, 8), network);
  const DemandClasses demand{{MakeClass({0}, {1}, kBits)}, {0}};
  MakeOptimalMoves(demand, {{{0, kBits, {{0, 1}}}}}, {kBits, 10}, network, draft);
  ExpectComplete(draft);
  for (const Move& move : draft.moves) EXPECT_LE(move.stage, 1);
}

// Eight NICs on either side, one holder: everybody sends an eighth out, and no device sends its
// neighbours more than a copy.
TEST(SegmentMovesTest, ACrowdedHostFeedsAllOfItsNics) {
  const Network network = MakeTestNetwork(2, 8, 8, 10, 90);
  PlanDraft draft = DraftOf(Devices(0, 16), network);
  const DemandClasses demand{{MakeClass({0}, {1}, kBits)}, {0}};
  MakeOptimalMoves(demand, {{{0, kBits, {{0, 1}}}}}, {kBits, 80}, network, draft);
  ExpectComplete(draft);
  for (const double copies : SentInside(draft)) EXPECT_LE(copies, 1.001);
  std::vector<int64_t> out(16, 0);
  for (const Move& move : draft.moves) {
    if (move.from_device < 8 && move.to_device >= 8) out[move.from_device] += move.hi - move.lo;
  }
  for (int32_t d = 0; d < 8; ++d) EXPECT_NEAR(static_cast<double>(out[d]), kBits / 8, 8) << d;
}

}  // namespace
}  // namespace remesh
