// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "planner/values/topology.h"
#include "proto/convert/plan_spec.h"
#include "server/controller/values/placed.h"

namespace remesh::server {

// The most shards that a state may have: each is a message to a worker.
inline constexpr int64_t kShardsMax = 2'000'000;

// Lays a state out and divides the layout by host. Shards come in the order of arrays, local
// devices and boxes. An empty topology becomes in the result's spec the hosts of `fallback` whose
// devices the spec names, because the meaning of the workers' numbering may change later: other
// hosts would make each question about the state, and its record, as large as the cluster. Errors: see ToStateLayout; RESOURCE_EXHAUSTED
// (TOO_MANY_SHARDS); the budget's status once `budget` is spent.
absl::StatusOr<std::shared_ptr<const PlacedState>> PlaceState(
    v1::StateSpec spec, const planner::Topology* fallback,
    planner::Budget& budget = planner::Budget::Unlimited());

// As above, for a layout that is known already. REQUIRES: `layout` is the layout of `spec`.
absl::StatusOr<std::shared_ptr<const PlacedState>> PlaceState(
    v1::StateSpec spec, proto::StateLayout layout,
    planner::Budget& budget = planner::Budget::Unlimited());

// Adds to `named` (host -> local devices) the devices that `layout` names, except those in `lost`,
// whether they hold a shard or not.
void AddNamedDevices(const proto::StateLayout& layout, const std::set<int64_t>& lost,
                     std::map<std::string, std::set<int32_t>>& named);

}  // namespace remesh::server
