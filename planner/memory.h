// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/canonical.h"
#include "planner/network.h"
#include "planner/plan_rep.h"

namespace remesh {

// Per device the most bytes that source shards, target shards and staging take at once, whatever
// kind of memory they lie in. Each box of a shard counts in whole bytes. Lost devices hold nothing.
std::vector<int64_t> PeakBytes(const ReshardRequest& canonical, const Network& network,
                               const Plan::Rep& rep);

}  // namespace remesh
