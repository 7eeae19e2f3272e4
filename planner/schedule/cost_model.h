// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/network/links.h"
#include "planner/schedule/moves.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The load that a plan puts on the network over its whole length, regardless of windows.
struct Cost {
  double bottleneck_seconds = 0;  // busiest NIC or uplink
  int64_t bottleneck_bytes = 0;
  std::string bottleneck;     // its name in words
  double fabric_seconds = 0;  // busiest device inside a host
};

// The result must not be used once the budget is spent.
Cost Estimate(const std::vector<Move>& moves, const Links& links,
              Budget& budget = Budget::Unlimited());

// The name of the sharing model of predictions, for PlanSummary and its readers.
inline constexpr char kSharingModel[] = "proportional shares in each window";

// The least time from the end of a window to the start of the next but one: to launch a group of
// messages and to learn that it is done, on a GPU cluster. Longer windows hide it, since two
// windows are under way at a time.
inline constexpr double kHandOverSeconds = 50e-6;

// How long a window lasts whose busiest link is busy for `busiest_seconds`.
double WindowSeconds(double busiest_seconds);

// Seconds of a schedule by fluid simulation, for any number of parts. Sharing model: windows follow
// one another, and within a window all transfers run at rates in proportion to their bytes
// ("proportional shares"), so that a window lasts as long as its busiest link: max over links of
// bytes / capacity; but see WindowSeconds(). Since parts are equal, only the windows in which the
// pipeline fills and drains differ: of the parts + hops - 1 cycles of each round, cycle c runs the
// hops c - parts + 1 .. c.
class ScheduleCost {
 public:
  // REQUIRES: moves in rounds 0 .. rounds - 1 and hops 0 .. hops - 1. `links` and `budget` must
  // outlive the object. No result must be used once the budget is spent.
  ScheduleCost(const std::vector<Move>& moves, int32_t rounds, int32_t hops, const Links& links,
               Budget& budget = Budget::Unlimited());

  // O(rounds * hops); with fewer parts than hops O(parts * moves).
  double Seconds(int32_t parts) const;

  // Seconds without the filling of the pipeline and with windows of any length: shows the cost of
  // uneven rounds.
  double SteadySeconds() const;

 private:
  struct Load {
    int32_t link;
    int64_t bits;
  };
  using HopLoads = std::vector<Load>;  // the same link may appear several times
  struct Round {
    std::vector<HopLoads> loads;
    // Seconds of the first 1, 2 ... hops together, and of the last 1, 2 ..., as if there were one
    // part.
    std::vector<double> filling;
    std::vector<double> draining;
  };
  const Links& links_;
  Budget& budget_;
  std::vector<Round> rounds_;
};

}  // namespace remesh::planner
