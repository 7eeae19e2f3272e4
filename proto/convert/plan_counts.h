// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/values/request.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::proto {

// The number of arrays of a request, and of the different devices, and their hosts, in its
// shardings.
struct PlanCounts {
  int64_t arrays = 0;
  int64_t source_devices = 0;
  int64_t target_devices = 0;
  int64_t source_hosts = 0;
  int64_t target_hosts = 0;
  int32_t hosts_assumed = 0;  // canonical requests do not say: 0

  friend bool operator==(const PlanCounts&, const PlanCounts&) = default;
};
PlanCounts CountsOf(const planner::ReshardRequest& request);

// Number of hosts whose capacities are assumed.
int32_t HostsAssumed(const planner::Topology& topology);
int32_t HostsAssumed(const v1::Topology& topology);

void SetCounts(const PlanCounts& counts, v1::Plan& plan);

}  // namespace remesh::proto
