// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "planner/plan/plan.h"
#include "planner/values/request.h"

namespace remesh::testing {

// What the simulated transfers put on the network.
struct TrafficReport {
  std::vector<std::vector<int64_t>> nic_out_bits;  // per host and NIC
  std::vector<std::vector<int64_t>> nic_in_bits;
  std::vector<int64_t> domain_out_bits;  // per domain, through its uplink
  std::vector<int64_t> domain_in_bits;
  double busiest_nic_seconds = 0;
  int64_t kept_bits = 0;
  int64_t crossing_bits = 0;
};

struct TransferCheckOptions {
  bool enter_once = true;  // no element may enter a host twice, nor one that holds it: what the
                           // optimal strategy promises
};

// Plays `transfers` element by element, straight from the boxes of the layouts (nothing of the
// planner but its values is used): each element stands for (array, subgroup, global index); a
// device sends what it holds in the named space before the window, and what it gets is there after
// the window. Then every target shard must hold exactly its own elements, each written once, less
// those in `missing`. INTERNAL with the first offence. For arrays of some thousand elements.
// `request` is in the ids of the transfers.
absl::Status CheckTransfers(const planner::ReshardRequest& request,
                            const std::vector<planner::Transfer>& transfers,
                            const std::vector<planner::MissingBox>& missing = {},
                            const TransferCheckOptions& options = {},
                            TrafficReport* report = nullptr);

}  // namespace remesh::testing
