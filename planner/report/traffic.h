// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/report/alike.h"

namespace remesh::planner {

// Who sends how much to whom, and when, in a size that a page can show: hosts that follow each
// other by name, rack by rack, are combined above `groups_max`, and consecutive windows above `steps_max`. Over
// time, all hosts of a kind are shown as one.
struct Traffic {
  // Hosts that follow each other by name, of one rack where the racks are few enough.
  struct Group {
    std::string first, last;
    int32_t hosts = 1;
    int64_t bytes_inside = 0;  // between devices of one host
    int32_t rack = -1;         // of the first host

    friend bool operator==(const Group&, const Group&) = default;
  };
  // How long a step would take if the NICs of a host had nothing else to do: the mean over all
  // hosts of a kind, and the busiest of them.
  struct Busy {
    double mean_seconds = 0;
    double most_seconds = 0;

    friend bool operator==(const Busy&, const Busy&) = default;
  };
  // Windows [first_window, first_window + windows).
  struct Step {
    int32_t first_window = 0;
    int32_t windows = 1;
    double start = 0;  // seconds from the start of the plan
    double seconds = 0;
    int64_t crossing_bytes = 0;  // between hosts
    int64_t bytes_inside = 0;    // between devices of one host
    std::vector<Busy> in, out;   // by kind

    friend bool operator==(const Step&, const Step&) = default;
  };

  // Bytes between hosts of two racks, or of one if both are the same.
  struct RackFlow {
    int32_t from = -1;  // -1: hosts that are in no rack
    int32_t to = -1;
    int64_t bytes = 0;

    friend bool operator==(const RackFlow&, const RackFlow&) = default;
  };

  // The domains right above hosts, in the order of groups.
  std::vector<std::string> racks;
  std::vector<RackFlow> rack_flows;  // the most bytes first; empty without racks
  std::vector<Group> groups;
  // Bytes from hosts of group i to other hosts of group j at [i * groups.size() + j].
  std::vector<int64_t> matrix;
  std::vector<AlikeTraffic> kinds;  // of hosts with traffic
  // The same between kinds.
  std::vector<int64_t> flows;
  int32_t hosts_per_group = 1;  // at most
  int32_t windows_per_step = 1;
  std::vector<Step> steps;  // the last ends at PlanSummary::predicted_seconds

  int64_t BytesBetween(size_t from, size_t to) const { return matrix[from * groups.size() + to]; }
};

struct TrafficOptions {
  int32_t groups_max = 128;  // >= 1
  int32_t steps_max = 300;   // >= 1
};

// REQUIRES: `plan` came from `request`, `binding` from its canonicalization; `alike` are the kinds
// of its rows. Times are as in links.h, stretched to end at the predicted time: see flows.h.
// Incomplete when the budget is spent.
Traffic TrafficOf(const CanonicalRequest& request, const Plan& plan, const Binding& binding,
                  const std::vector<AlikeTraffic>& alike, const TrafficOptions& options = {},
                  Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
