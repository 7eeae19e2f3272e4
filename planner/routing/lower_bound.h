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

namespace remesh {

// A bound with its proof: t = certificate.bits / certificate.capacity.
struct Bound {
  Rational t;
  Certificate certificate;
};

// max over domains and hosts d of in_d / C_in(d): in_d = bits that d needs and no device of d
// holds.
Bound IngressBound(const DemandClasses& demand, const Units& units);

// True for any plan, whoever relays; LB is this or, where that is more, EgressOf() members of
// several levels. The largest of
// - IngressBound();
// - T_out of every level of the tree: each bit with a needer outside the domains that hold it must
// leave one of them, so the least t for which
//   every domain sends at most t * C_out(d) and the holders of each class send its bits once.
Bound LowerBound(const DemandClasses& demand, const Units& units,
                 Budget& budget = Budget::Unlimited());

// What these hosts and domains, none of which lies in another, must send in any plan: the bits that
// all holders of which lie in them, and that a host needs which lies in none of these holders'
// members. Their sum over the members' egress.
Bound EgressOf(const std::vector<int32_t>& hosts, const std::vector<int32_t>& domains,
               const DemandClasses& demand, const Units& units);

// T0 of `routing`, with what proves it: the ingress of a host or a set of hosts.
Bound RoutingBound(const DemandClasses& demand, const Units& units, const Routing& routing);

}  // namespace remesh
