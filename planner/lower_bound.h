// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "planner/demand_classes.h"
#include "planner/network.h"

namespace remesh {

struct LowerBound {
  double seconds = 0;          // LB
  double routing_seconds = 0;  // T0
  std::string certificate;     // what proves LB, and T0 where it is above LB
};

LowerBound BoundFromBelow(const Atoms& atoms, const DemandClasses& demand, const Network& network);

}  // namespace remesh
