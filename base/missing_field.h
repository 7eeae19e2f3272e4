// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace remesh {

// InvalidField() of a field that nobody set: `field: is missing; expectation`. `unset`: the value
// that says so.
absl::Status MissingField(std::string_view field, std::string_view expectation,
                          std::string_view unset = "");

}  // namespace remesh
