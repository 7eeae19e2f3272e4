// SPDX-License-Identifier: Apache-2.0
// Peaks of donated plans: found in few steps they are higher, never lower.
#include <gtest/gtest.h>

#include "planner/routing/routing.h"
#include "planner/routing/trees.h"
#include "planner/schedule/memory.h"
#include "planner/schedule/moves.h"
#include "planner/schedule/windows.h"
#include "tests/testing/random_request.h"

namespace remesh {
namespace {

// Optimal moves in many slices, as MakePlan() makes them.
PlanDraft DraftOf(const ReshardRequest& request, const Network& network) {
  PlanDraft draft;
  draft.atoms = *MakeAtoms(request, network);
  draft.host_of = network.host_of;
  const DemandClasses demand = MakeDemandClasses(draft.atoms, network);
  const Routing routing =
      RouteClasses(draft.atoms, demand, network, HostIngressBound(demand, network));
  std::vector<Route> routes;
  for (size_t a = 0; a < demand.classes.size(); ++a) {
    routes.push_back(MakeTrees(demand.classes[a], routing.sent[a]));
  }
  MakeOptimalMoves(demand, routes, routing.t0, network, draft);
  EXPECT_TRUE(ScheduleWindows(network, request.options.window_bytes, 64, draft).ok());
  return draft;
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
    const PlanDraft draft = DraftOf(asked, network);
    const std::vector<int64_t> exact = PeakBytes(asked, network, draft);
    for (const int64_t steps : {1000, 100, 1}) {
      const std::vector<int64_t> coarse = PeakBytes(asked, network, draft, steps);
      for (size_t d = 0; d < exact.size(); ++d) {
        EXPECT_GE(coarse[d], exact[d]) << "device " << d << ", " << steps << " steps";
        higher += coarse[d] > exact[d];
      }
    }
  }
  EXPECT_GT(higher, 1000);
}

}  // namespace
}  // namespace remesh
