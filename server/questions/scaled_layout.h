// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/values/budget.h"
#include "planner/values/topology.h"
#include "remesh/v1/state.pb.h"

namespace remesh::server {

// A layout with one device list that may grow and shrink, and with it one axis of every sharding
// over that list: see PrecomputePlansRequest.
struct ElasticLayout {
  v1::StateSpec spec;  // with an explicit topology
  std::string list;    // key in spec.device_lists
  std::string axis;
  std::vector<int64_t> devices;  // in the list now
};

// INVALID_ARGUMENT when there is no such list or axis, or a sharding over the list cannot change
// its size. `list` may be empty when the layout has exactly one. `workers`: what an empty topology
// means; may be null.
absl::StatusOr<ElasticLayout> MakeElastic(v1::StateSpec spec, std::string list, std::string axis,
                                          const planner::Topology* workers,
                                          planner::Budget& budget = planner::Budget::Unlimited());

// The layout over other devices. FAILED_PRECONDITION (AXIS_DOES_NOT_DIVIDE) when the other axes do
// not divide the number of devices.
absl::StatusOr<v1::StateSpec> ScaledTo(const ElasticLayout& layout,
                                       const std::vector<int64_t>& devices);

}  // namespace remesh::server
