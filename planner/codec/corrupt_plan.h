// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace remesh::planner {

// DATA_LOSS (PLAN_BYTES_CORRUPT): what is wrong with a plan's bytes, metadata "error".
absl::Status CorruptPlan(std::string_view what);

// The same for what a check of values says: with its "field" and "value" where it names them.
absl::Status CorruptPlan(const absl::Status& why);

// `field: value "value" expectation`, see InvalidField().
absl::Status CorruptField(std::string_view field, std::string_view value,
                          std::string_view expectation);

}  // namespace remesh::planner
