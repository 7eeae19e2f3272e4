// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/atoms/atoms.h"
#include "planner/network/network.h"
#include "planner/routing/lower_bound.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// A bound that holds for any plan, from single devices: max over devices and directions of what the
// device must move / (its fabric + the NIC that it uses). A device must receive what it needs and
// does not hold, and must send, once, what it alone holds and another device needs. Of hosts with
// several devices a NIC this is less than they need together. The result must not be used once the
// budget is spent.
Bound FabricBound(const Atoms& atoms, const Network& network, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
