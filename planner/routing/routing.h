// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/network/network.h"
#include "planner/routing/transportation.h"
#include "planner/values/rational.h"

namespace remesh {

// How much of each class every host sends, so that the busiest host is as little busy as any plan
// without third hosts lets it be.
//
// A class of b bits with holders S and needers D needs |D| copies sent: b of them, the root, by S
// (each bit leaves S at least once), the other b * (|D| - 1) by S or D (a needer passes on what it
// got). Any amounts x with these sums can be sent along trees, so routing is a transportation
// problem: items are roots and copies, bins are hosts of capacity t * C_h. T0, the smallest t, is
// not below in_h / C_h either, what a host must receive over its capacity.
struct Routing {
  Rational t0;
  // sent[a][k] is what host k of class a's list (holders, then needers) sends, in bits.
  std::vector<std::vector<int64_t>> sent;
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

}  // namespace remesh
