// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/atoms/demand_classes.h"
#include "planner/network/network.h"
#include "planner/routing/trees.h"
#include "planner/values/rational.h"

namespace remesh::planner {

struct RoutePlan {
  std::vector<Route> routes;  // by class
  Rational t;                 // of the busiest host or uplink, in its busier direction
};

// 0.999 t: smaller differences do not matter.
inline Rational ThousandthLess(const Rational& t) { return {t.num - t.num / 1000, t.den}; }

// `routes` with the time of the busiest host or uplink.
RoutePlan Timed(const Network& network, std::vector<Route> routes);

// A mix of two answers to one demand: i / 64 of every class goes by `some`, the rest by `others`.
// The load of a link is then the same mix of its two loads, so that the busiest link may be less
// busy than with either answer: for instance where one overloads uplinks and the other NICs inside.
// Takes the best i; one answer whole where no mix saves a thousandth; `some` where both are equal.
RoutePlan LeastBusyMix(const Network& network, RoutePlan some, RoutePlan others);

}  // namespace remesh::planner
