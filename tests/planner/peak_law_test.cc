// SPDX-License-Identifier: Apache-2.0
// Peaks found in few steps are higher, never lower.
#include <gtest/gtest.h>

#include "planner/canonical/canonical.h"
#include "planner/moves/make_moves.h"
#include "planner/routing/make_routings.h"
#include "planner/schedule/memory.h"
#include "planner/schedule/moved_segments.h"
#include "planner/schedule/transit.h"
#include "planner/schedule/windows.h"
#include "tests/testing/random_request.h"

namespace remesh::planner {
namespace {

void ExpectTransitNoLess(const Timeline& timeline, const Atoms& atoms,
                         const std::vector<Segment>& segments, const Network& network) {
  const SegmentCuts cuts = CutsOfMoves(timeline.moves, segments);
  const MovedSegments moved = SegmentsOfPlan(timeline.schedule, segments, cuts, atoms.tapes);
  const std::vector<int64_t> exact = TransitBytes(moved, timeline.moves, network.host_of);
  const std::vector<int64_t> coarse = TransitBytes(moved, timeline.moves, network.host_of, 1);
  for (size_t d = 0; d < exact.size(); ++d) EXPECT_GE(coarse[d], exact[d]) << "device " << d;
}

TEST(PeakLawTest, FewerStepsNeverFindLess) {
  int64_t higher = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    ReshardRequest request = testing::RandomRequest(seed, {.lost_devices = false});
    request.options.donate = true;
    const auto canonical = Canonicalize(request);
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    const ReshardRequest& asked = canonical->canonical.request;
    const Network network = MakeNetwork(asked);
    // Optimal moves in many parts, as MakePlan() makes them.
    const Atoms atoms = *MakeAtoms(asked, network);
    const DemandClasses demand = MakeDemandClasses(atoms, network);
    const Routings routings = MakeRoutings(Strategy::kOptimal, atoms, demand, network);
    Moves moves =
        MakeMoves(Strategy::kOptimal, atoms, demand, routings, network, Budget::Unlimited());
    const auto timeline = ScheduleWindows(moves, atoms, network, asked.options.window_bytes, 64);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    const auto peaks = [&](int64_t steps) {
      return PeakBytes(asked, network, atoms, moves.segments, *timeline, steps);
    };
    ExpectTransitNoLess(*timeline, atoms, moves.segments, network);
    const std::vector<int64_t> exact = peaks(kPeakStepsMax);
    for (const int64_t steps : {1000, 100, 1}) {
      const std::vector<int64_t> coarse = peaks(steps);
      for (size_t d = 0; d < exact.size(); ++d) {
        EXPECT_GE(coarse[d], exact[d]) << "device " << d << ", " << steps << " steps";
        higher += coarse[d] > exact[d];
      }
    }
  }
  EXPECT_GT(higher, 1000);
}

// Regression: it looked once for 64 moves, and a single one took as long as it has parts.
TEST(PeakLawTest, LooksAtTheBudgetWithinAMove) {
  constexpr int64_t kParts = 1 << 14;
  // One array, from the device of a host to that of another.
  ReshardRequest request;
  for (int64_t id : {0, 1}) {
    request.topology.hosts.push_back({.name = id == 0 ? "a" : "b",
                                      .device_ids = {id},
                                      .nic_bytes_per_second = 1e9,
                                      .fabric_bytes_per_second = 1e9});
  }
  const auto whole = std::make_shared<const Layout>(
      MakeSeparableLayout({1 << 30}, {TilePartition(1 << 30, 1)}, {0}));
  const auto on = [&](int64_t id) {
    return Placement{whole, std::make_shared<const DeviceList>(DeviceList{id})};
  };
  request.arrays.push_back({"w", {1 << 30}, ElementType::kF32, on(0), on(1)});
  request.options.donate = true;
  const ReshardRequest asked = Canonicalize(request)->canonical.request;
  const Network network = MakeNetwork(asked);
  const Atoms atoms = *MakeAtoms(asked, network);
  const DemandClasses demand = MakeDemandClasses(atoms, network);
  const Routings routings = MakeRoutings(Strategy::kOptimal, atoms, demand, network);
  Moves moves =
      MakeMoves(Strategy::kOptimal, atoms, demand, routings, network, Budget::Unlimited());
  const auto timeline = ScheduleWindows(moves, atoms, network, asked.options.window_bytes, kParts);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  int64_t looks = 0;
  Budget counted([&looks] {
    ++looks;
    return absl::OkStatus();
  });
  PeakBytes(asked, network, atoms, moves.segments, *timeline, kPeakStepsMax, counted);
  EXPECT_LT(timeline->moves.size(), 10u);
  EXPECT_GT(looks, kParts / Budget::kAskedPerLook);
}

}  // namespace
}  // namespace remesh::planner
