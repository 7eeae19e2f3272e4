// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace remesh::planner {

// DATA_LOSS (PLAN_BYTES_CORRUPT), metadata "error". `what` says what is wrong with a plan's bytes.
absl::Status CorruptPlan(std::string_view what);

// The same for a failed check of values, with its "field" and "value" if it names them.
absl::Status CorruptPlan(const absl::Status& why);

// The same with `field: value "value" expectation`, see InvalidField().
absl::Status CorruptField(std::string_view field, std::string_view value,
                          std::string_view expectation);

}  // namespace remesh::planner
