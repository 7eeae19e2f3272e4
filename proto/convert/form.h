// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/sharding/dtensor.h"
#include "planner/sharding/hlo_sharding.h"
#include "planner/sharding/named_sharding.h"
#include "planner/values/layout.h"
#include "remesh/v1/sharding.pb.h"

namespace remesh::proto {

// Boxes as the message has them. The ids are in the order of the layout's positions.
struct BoxForm {
  std::vector<int64_t> device_ids;  // distinct, >= 0
  std::vector<std::vector<planner::Box>> boxes;
};

// A sharding's form, parsed once and applicable to arrays of any shape.
using Form =
    std::variant<planner::HloSharding, planner::NamedSharding, planner::DTensorSharding, BoxForm>;

// Parses the form that is set. Fields are relative to the Sharding: "hlo_text",
// "boxes.devices[2].device", "dtensor.placements[0]". REQUIRES: a form is set, and it is not `ref`.
absl::StatusOr<Form> ParseForm(const v1::Sharding& sharding);

// The name of the form that is set, as in "hlo_text"; "" when none is.
std::string FormName(const v1::Sharding& sharding);

// The layout of an array. Fields are those of the front end ("shape", "devices", "sharding"), or
// "boxes.devices[i].boxes[j]".
absl::StatusOr<planner::Layout> ToLayout(const Form& form, const planner::Shape& shape,
                                         int32_t device_count);

}  // namespace remesh::proto
