// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/network/network.h"
#include "planner/routing/transportation.h"
#include "planner/values/rational.h"

namespace remesh::planner {

// How much of each class every host sends, so that the busiest host is as little busy as any plan
// without third hosts lets it be.
//
// Symbols. Class a has b_a bits, holders S_a and needers D_a; host h has capacity C_h in either
// direction; x_ah >= 0 is what h sends of a; in_h is the sum of b_a over the classes that h needs.
//
// Every needer gets every bit once, so a is sent b_a |D_a| times in all. Of these b_a, the root,
// come from S_a (each bit leaves S_a at least once), the others from S_a or D_a (a needer passes on
// what it got):
//   sum over S_a of x_ah >= b_a,   sum over S_a and D_a of x_ah = b_a |D_a|,
//   sum over a of x_ah <= t C_h,   in_h <= t C_h.
// Any x with these sums can be sent along trees (trees.h). So T0, the least t, is that of a
// transportation problem whose items are roots and copies, and whose bins are hosts.
//
// Example: one class of 120 bits, S = {0}, D = {1, 2, 3}, all C = 1. Host 0 alone would send 360;
// with x = (120, 80, 80, 80) everybody sends 120 at most, and T0 = in_h / C_h = 120.
struct Routing {
  Rational t0;
  // sent[a][k] is what host k of class a's list (holders, then needers) sends, in bits.
  std::vector<Served> sent;
  // The classes and hosts that prove T0 when more than T_in does; see TransportationSolution.
  std::vector<int32_t> tight_roots;   // classes whose root is in the proof
  std::vector<int32_t> tight_copies;  // classes whose copies are
  std::vector<int32_t> tight_hosts;
};

// Among the optima it looks for one that splits little: whole copies first, then the rest along a
// forest. Only where the holders of a class have it on a few of their NICs do they share its root
// evenly, so that all NICs get to work. REQUIRES: capacity() > 0 of every host of a class.
Routing RouteClasses(const Atoms& atoms, const DemandClasses& demand, const Network& network,
                     const Rational& t_in, Budget& budget = Budget::Unlimited());

// max over hosts of in_h / C_h.
Rational HostIngressBound(const DemandClasses& demand, const Network& network);

}  // namespace remesh::planner
