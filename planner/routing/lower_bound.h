// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/network/units.h"
#include "planner/routing/routing.h"
#include "planner/values/budget.h"
#include "planner/values/certificate.h"
#include "planner/values/rational.h"

namespace remesh::planner {

// A bound with its proof: t = certificate.bits / certificate.capacity.
struct Bound {
  Rational t;
  Certificate certificate;
};

// max over domains and hosts d of in_d / C_in(d): in_d = bits that d needs and no device of d
// holds.
Bound IngressBound(const DemandClasses& demand, const Units& units);

// A bound that holds for any plan, whoever relays. (LB is this bound or, where that is more,
// EgressOf() members of several levels.) The largest of
// - IngressBound();
// - T_out of every level of the tree: each bit with a needer outside the domains that hold it must
//   leave one of them, so T_out is the least t for which every domain sends at most t * C_out(d)
//   and the holders of each class send its bits once.
Bound LowerBound(const DemandClasses& demand, const Units& units,
                 Budget& budget = Budget::Unlimited());

// The time that these hosts and domains, none of which lies in another, need to send what they must
// in any plan: the bits all of whose holders lie in members, and that a host needs which lies in
// none of the members that hold them. The bound is the sum of these bits over the members' egress.
Bound EgressOf(const std::vector<int32_t>& hosts, const std::vector<int32_t>& domains,
               const DemandClasses& demand, const Units& units);

// T0 of `routing` with its proof: the ingress of a host, or a set N of hosts.
//
// The proof by N (symbols: routing.h). Let R be the classes whose root is in the proof (all of S_a
// in N), and Q the classes whose copies are (all of S_a and D_a in N). Then, in any plan without
// third hosts, the hosts of N send at least
//   sum over R of b_a  +  sum over Q of b_a (|D_a| - 1)   bits, at sum over N of C_h.
// With Q empty this holds for any plan (kEgress); else plans in which third hosts relay may be
// faster (kRelay).
//
// Example: hosts 0, 1 and 2 of C = 1 hold class A of 250 bits, which host 9 of C = 10 needs; host 1
// holds class B of 100 bits, which hosts 0 and 2 need. in_h / C_h is 100 at most; roots alone give
// (250 + 100) / 3; the same three hosts must also send the second copy of B: T0 = (250 + 2 x 100) /
// 3 = 150.
Bound RoutingBound(const DemandClasses& demand, const Units& units, const Routing& routing);

}  // namespace remesh::planner
