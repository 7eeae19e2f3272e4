// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/canonical/canonical.h"
#include "planner/plan.h"

namespace remesh {

// Who sends how much to whom, and when, in a size that a page can show: hosts in a row by name
// are taken together above `groups_max`, windows in a row above `steps_max`.
struct Traffic {
  // Hosts that follow each other by name.
  struct Group {
    std::string name;  // "a", or "a .. d" for several
    int32_t hosts = 1;
    int32_t devices = 0;
    double bytes_per_second = 0;  // into or out of all its hosts

    friend bool operator==(const Group&, const Group&) = default;
  };
  // Windows [first_window, first_window + windows).
  struct Step {
    int32_t first_window = 0;
    int32_t windows = 1;
    double start = 0;  // seconds from the start of the plan
    double seconds = 0;
    int64_t bytes_crossing = 0;      // between hosts
    int64_t bytes_local = 0;         // between devices of one host
    std::vector<int64_t> bytes_in;   // from other hosts, by group
    std::vector<int64_t> bytes_out;  // to other hosts, by group

    friend bool operator==(const Step&, const Step&) = default;
  };

  int32_t hosts_per_group = 1;
  std::vector<Group> groups;
  // Bytes from group i to group j at [i * groups.size() + j]; on the diagonal also what moves
  // between devices of one host.
  std::vector<int64_t> matrix;
  int32_t windows_per_step = 1;
  std::vector<Step> steps;

  int64_t BytesBetween(size_t from, size_t to) const { return matrix[from * groups.size() + to]; }
};

struct TrafficOptions {
  int32_t groups_max = 128;  // >= 1
  int32_t steps_max = 300;   // >= 1
};

// REQUIRES: `plan` came from `request`, `binding` from its canonicalization. Time as in links.h:
// the windows follow one another, each as long as its busiest link needs.
Traffic TrafficOf(const CanonicalRequest& request, const Plan& plan, const Binding& binding,
                  const TrafficOptions& options = {});

}  // namespace remesh
