// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"
#include "planner/values/topology.h"
#include "remesh/v1/plan.pb.h"
#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/state.pb.h"

namespace remesh::proto {

// Converts messages of remesh.v1 to the planner's values. Errors are INVALID_ARGUMENT and name the
// path of the field as in JSON, with map keys in brackets: "shardings[rows].hlo_text",
// "arrays[3].source.devices.ids[2]". Equal shardings and device lists share one Layout and
// DeviceList.

// An empty message becomes `fallback`, the workers' own topology; if that is null it is refused.
absl::StatusOr<planner::Topology> ToTopology(const v1::Topology& topology,
                                             const planner::Topology* fallback);

// `fallback`: see ToTopology; may be null. The result has passed ValidateRequest(). Returns the
// budget's status once `budget` is spent.
absl::StatusOr<planner::ReshardRequest> ToReshardRequest(
    const v1::PlanSpec& spec, const planner::Topology* fallback,
    planner::Budget& budget = planner::Budget::Unlimited());

// An array with one of its two placements: half of an ArraySpec.
struct PlacedArray {
  std::string name;
  planner::Shape shape;
  planner::ElementType element_type = planner::ElementType::kU8;
  planner::Placement placement;
};

// The layout of a state as values.
struct StateLayout {
  planner::Topology topology;
  std::vector<PlacedArray> arrays;
};

// The result is complete: a valid topology; arrays that are unique by name and covered, on devices
// of the topology. Returns the budget's status once `budget` is spent.
absl::StatusOr<StateLayout> ToStateLayout(const v1::StateSpec& spec,
                                          const planner::Topology* fallback,
                                          planner::Budget& budget = planner::Budget::Unlimited());

// The StateSpec of a state after a reshard to `targets`: the same arrays with their new shardings.
// Arrays that are not named keep theirs; what these refer to may get other keys. No array may be
// named twice; a topology in `targets` must place the devices of the state as the state's own
// topology does.
absl::StatusOr<v1::StateSpec> ApplyTargets(const v1::StateSpec& source, const v1::Targets& targets);

// The request to go from `source` to `target` (same arrays in the same order). The topology is the
// target's. Returns the budget's status once `budget` is spent.
absl::StatusOr<planner::ReshardRequest> ToReshardRequest(
    const StateLayout& source, const StateLayout& target, const v1::PlanOptions& options,
    planner::Budget& budget = planner::Budget::Unlimited());

absl::StatusOr<planner::PlanOptions> ToPlanOptions(const v1::PlanOptions& options);

}  // namespace remesh::proto
