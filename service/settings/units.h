// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remesh::service {

// "1.5s" -> 1500 ms. INVALID_ARGUMENT without a field.
absl::StatusOr<std::chrono::nanoseconds> ParseDuration(std::string_view text);
std::string FormatDuration(std::chrono::nanoseconds duration);
// "256MiB", "1.5 GB", "4096". INVALID_ARGUMENT without a field.
absl::StatusOr<int64_t> ParseBytes(std::string_view text);
std::string FormatByteSize(int64_t bytes);  // in the largest binary unit that divides it

}  // namespace remesh::service
