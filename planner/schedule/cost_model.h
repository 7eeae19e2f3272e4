// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "planner/moves/moves.h"
#include "planner/network/links.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/timeline.h"
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

// How long a schedule takes.
struct Prediction {
  double seconds = 0;
  double schedule_seconds = 0;  // as if messages cost nothing beside their bytes
};

// Seconds of a schedule by fluid simulation, for any number of parts. Sharing model: windows follow
// one another, and within a window all transfers run at rates in proportion to their bytes
// ("proportional shares"), so that a window lasts as long as its busiest resource:
//   a NIC, in each direction: bytes / rate + messages x nic_message_seconds
//   a device's fabric, in each direction: bytes / rate + copies x fabric_message_seconds
//   an uplink, in each direction: bytes / rate
//   a host: operations x post_seconds / posting_threads
// but see WindowSeconds(). A pair of devices has one message in a window, whatever its hops, and
// across hosts that is one operation of both. More parts do not make the messages of a window
// fewer; but a pair whose segments have fewer parts counts only in the turns that they use.
//
// Since parts are equal, only the windows in which the pipeline fills and drains differ: of the
// parts + hops - 1 cycles of each round, cycle c runs the hops c - parts + 1 .. c.
class ScheduleCost {
 public:
  // Uses rounds, hops and min_part_bits of `schedule`. REQUIRES: moves are in rounds 0 .. rounds - 1
  // and hops 0 .. hops - 1; `list` is of `moves`, which are of `segments`. `budget` must outlive the
  // object. No result must be used once the budget is spent.
  ScheduleCost(const std::vector<Move>& moves, const PairList& list,
               const std::vector<Segment>& segments, const Schedule& schedule, int32_t parts_max,
               const Links& links, Budget& budget = Budget::Unlimited());

  // O(rounds * (hops + pairs)); with fewer parts than hops O(parts * moves). REQUIRES: 1 <= parts <=
  // parts_max.
  Prediction Predict(int32_t parts) const;

  // Less than Predict(parts).seconds, and rising with the parts: what the bits and most of the
  // messages of the busiest resource take. O(resources). REQUIRES: schedule.hops > 1, since without
  // relays no other number of parts is faster than the fewest.
  double LeastSeconds(int32_t parts) const;

  // Seconds without the filling of the pipeline and with windows of any length: shows the cost of
  // uneven rounds.
  double SteadySeconds() const;

 private:
  // Something that a window may have to wait for: a link, or a host's posting.
  struct Resource {
    double seconds_per_bit = 0;
    double seconds_per_message = 0;
  };
  struct Load {
    int32_t resource = 0;
    int32_t messages = 0;  // in every turn, of pairs with no other hop in the round
    int64_t bits = 0;
  };
  // Any other message.
  struct Message {
    std::array<int32_t, 4> resources = {-1, -1, -1, -1};  // those that it costs time, then -1
    int32_t turns = 0;                                    // in which the pair sends, at parts_max
    int32_t prior = -1;  // the pair's hop before in the round, -1: none
    int32_t next = -1;   // the one after
  };
  struct Hop {
    std::vector<Load> loads;  // a resource at most once
    std::vector<Message> messages;
  };
  using Round = std::vector<Hop>;
  class Builder;
  class RunningMax;

  void SetResources(const Links& links);
  void SumLoads();
  void AddRound(const Round& round, int32_t parts, RunningMax& busiest, Prediction& sum) const;

  Budget& budget_;
  std::vector<Resource> resources_;  // the links, then the hosts
  std::vector<Load> sums_;           // of all rounds and hops, by resource; empty without relays
  std::vector<Round> rounds_;
};

}  // namespace remesh::planner
