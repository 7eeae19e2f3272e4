// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/atoms/atoms.h"
#include "planner/network/network.h"
#include "planner/routing/lower_bound.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// A bound from what devices must move over fabric and NIC. It holds for any plan in which nothing
// enters a host that holds it already, as in those that MakePlan() makes. The largest of
// - kIngress, kEgress: over devices, what a device needs and does not hold, or what it alone holds
//   and another device needs / (its fabric + the NIC that it uses). Of hosts with several devices a
//   NIC this is less than they need together. These two hold for any plan at all.
// - kLocalIngress: over devices, what a device needs and others of its host hold / its fabric.
// - kLocalEgress: over sets of a host's devices, what they must send inside it / their fabric.
//
// Proof of kLocalEgress. Let N be devices of a host, and X the bits that some device of the host
// needs and does not hold, while devices of N hold them and no other device of the host does. Such
// a bit does not enter the host. So the first device of the host that gets it has it from a holder
// in N, over that holder's fabric, and the devices of N together send at least |X| bits at |N|
// times the fabric. BoundTransportation() finds the N for which that takes longest: its items are X
// by who holds them, its bins the fabric of devices, and its proof the tight bins.
//
// Example: of four devices, 0 alone holds 90 bits, 1 alone 10, and both another 100; devices 2 and
// 3 need them all. Device 0 must send 90 of them; 0 and 1 together 200, so one of them 100.
//
// The result must not be used once the budget is spent.
Bound FabricBound(const Atoms& atoms, const Network& network, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
