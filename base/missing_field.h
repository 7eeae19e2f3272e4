// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace remesh {

// InvalidField() for a field that is not set: `field: is missing; expectation`. `unset` is the
// value that stands for "not set".
absl::Status MissingField(std::string_view field, std::string_view expectation,
                          std::string_view unset = "");

}  // namespace remesh
