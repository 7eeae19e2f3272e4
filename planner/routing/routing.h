// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/network/network.h"
#include "planner/routing/transportation.h"
#include "planner/values/rational.h"

namespace remesh::planner {

// How much of each class every host sends, so that the busiest host is as little busy as possible
// among plans without third hosts.
//
// Symbols. Class a has b_a bits, holders S_a and needers D_a; host h has capacity C_h in either
// direction; x_ah >= 0 is what h sends of a; in_h is the sum of b_a over the classes that h needs.
//
// Every needer gets every bit once, so class a is sent b_a |D_a| times in all. Of this, b_a bits
// (the root) come from S_a, because each bit leaves S_a at least once; the rest (the copies) comes
// from S_a or D_a, because a needer may pass on what it received:
//   sum over S_a of x_ah >= b_a,   sum over S_a and D_a of x_ah = b_a |D_a|,
//   sum over a of x_ah <= t C_h,   in_h <= t C_h.
// Any x with these sums can be sent along trees (trees.h). So T0, the least t, is the solution of a
// transportation problem whose items are roots and copies, and whose bins are hosts.
//
// Example: one class of 120 bits, S = {0}, D = {1, 2, 3}, all C = 1. Host 0 alone would send 360;
// with x = (120, 80, 80, 80) no host sends more than 120, and T0 = in_h / C_h = 120.
struct Routing {
  Rational t0;
  // sent[a][k] is what host k of class a's list (holders, then needers) sends, in bits.
  std::vector<Served> sent;
  // The classes and hosts that prove T0 when T_in is less; see TransportationSolution.
  std::vector<int32_t> tight_roots;   // classes whose root is in the proof
  std::vector<int32_t> tight_copies;  // classes whose copies are in the proof
  std::vector<int32_t> tight_hosts;
};

// Among the optima it looks for one that splits little: whole copies first, then the rest along a
// forest. The holders of a class share its root evenly only where each has it on just a few of its
// NICs, so that all NICs are used. REQUIRES: capacity() > 0 for every host of a class.
Routing RouteClasses(const Atoms& atoms, const DemandClasses& demand, const Network& network,
                     const Rational& t_in, Budget& budget = Budget::Unlimited());

// max over hosts of in_h / C_h.
Rational HostIngressBound(const DemandClasses& demand, const Network& network);

}  // namespace remesh::planner
