// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remesh {

// The one grammar of sizes, rates and durations, in settings, specs and flags: a number such as 64,
// 1.5 or 1e9 and a unit. Units are case-sensitive. All errors are INVALID_ARGUMENT without a field.

// Bytes: "256MiB", "1.5 GB", "1e9", "4096". A bare number is bytes.
absl::StatusOr<int64_t> ParseBytes(std::string_view text);
// Bytes per second: "100Gbit/s", "400Gbps", "12.5GB/s", "1e9". A bare number is bytes per second.
absl::StatusOr<double> ParseRate(std::string_view text);
// "1.5s", "300ms", "5m", "1h30m", "2d", "0". A bare number but 0 is refused.
absl::StatusOr<std::chrono::nanoseconds> ParseDuration(std::string_view text);
// Seconds, as ParseDuration(); a bare number is seconds.
absl::StatusOr<double> ParseSeconds(std::string_view text);

std::string FormatDuration(std::chrono::nanoseconds duration);
std::string FormatByteSize(int64_t bytes);  // in the largest binary unit that divides it

}  // namespace remesh
