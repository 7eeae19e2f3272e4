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

// 0.999 t: differences below that are not worth anything.
inline Rational ThousandthLess(const Rational& t) { return {t.num - t.num / 1000, t.den}; }

// Time of the busiest host or uplink.
RoutePlan Timed(const Network& network, std::vector<Route> routes);

// Two answers to one demand, mixed: i / 64 of every class goes by `some`, the rest by `others`. A
// link is then as busy as the same mix of what the two put on it, so that the busiest one may be
// less busy than with either: where one overloads uplinks and the other NICs inside. Takes the i
// that serves that best: either answer whole where no mix saves a thousandth, `some` where both are
// alike.
RoutePlan LeastBusyMix(const Network& network, RoutePlan some, RoutePlan others);

}  // namespace remesh::planner
