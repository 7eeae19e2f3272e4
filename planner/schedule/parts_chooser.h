// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/schedule/cost_model.h"
#include "planner/schedule/price_limits.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Chooses the number of parts of a schedule.
class PartsChooser {
 public:
  struct Choice {
    int64_t parts = 0;
    Prediction prediction;
  };

  PartsChooser(const ScheduleCost& cost, const PriceLimits& limits, Budget& budget)
      : cost_(cost), limits_(limits), budget_(budget) {}

  // The fewest parts in [least, most] that are about as fast as any other number, or as any that
  // makes a good schedule if there is one. To be called once.
  Choice Choose(int64_t least, int64_t most, int32_t hops);

 private:
  bool IsEnough(const Prediction& one) const;
  void Try(int64_t parts);
  Choice Fewest(int64_t few, Choice enough) const;

  const ScheduleCost& cost_;
  const PriceLimits& limits_;
  Budget& budget_;
  std::vector<Choice> tried_;
  bool any_good_ = false;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace remesh::planner
