// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "planner/demand_classes.h"
#include "planner/network.h"
#include "planner/plan_rep.h"
#include "planner/routing.h"

namespace remesh {

// Turns routes between hosts into moves between devices, stage by stage:
// - a device that needs what it holds keeps it; a device whose host holds it gets it from there,
// the holders taking turns;
// - what enters a host is striped over the devices there that need it, and copied from where it
// arrived to the others one stage later;
// - a relay passes on from the device where a stripe arrived.
// Segments and moves are appended to `rep`; rounds are not set. Every sub is cut in the proportions
// of its class's route.
void MakeOptimalMoves(const DemandClasses& demand, const std::vector<Route>& routes,
                      const Network& network, Plan::Rep& rep);

// Every device pulls what it needs and does not hold from one holder: in its own host if there is
// one, else in turn.
void MakeP2pMoves(const Network& network, Plan::Rep& rep);

// One device (the first that may carry) gathers everything and sends it to everybody who needs it.
void MakeGatherMoves(const Network& network, Plan::Rep& rep);

}  // namespace remesh
