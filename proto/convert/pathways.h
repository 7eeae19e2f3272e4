// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::proto {

// A PlanSpec without topology, from the JSON that pathwaysutils sends to its side channel:
//
//   {"reshardRequest": {"donateInput": true,
//                       "inSharding": [{"devices": {"device_ids": [0, 1]},
//                                       "xla_hlo_sharding": "base64 of xla.OpSharding",
//                                       "memory_kind": "device"}, ...],
//                       "outSharding": [...]}}
//
// That JSON has no shapes and types. `arrays` gives them, as JSON or YAML in a format of remesh,
// one entry for each sharding in turn: [{"name": "w", "shape": [8, 8], "element_type": "bf16"},
// ...]. memory_kind may be missing. Equal shardings and equal device lists become one entry of the
// spec's maps, named after the first, as in "inSharding[0]", so that the spec is as small as one
// written for remesh.
//
// INVALID_ARGUMENT: INVALID_TEXT with line and column for bad JSON; else with the name of the
// field, as in "reshardRequest.inSharding[2].devices.device_ids[0]" or "arrays[1].shape".
// ToReshardRequest() checks the content of the shardings.
absl::StatusOr<v1::PlanSpec> ParsePathways(std::string_view request, std::string_view arrays);

}  // namespace remesh::proto
