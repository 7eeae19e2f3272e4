// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remesh {

// The grammar of resource names, such as jobs/{job}/states/{state}: segments between slashes. A
// segment has 1 to 63 characters of [A-Za-z0-9._-] and begins with a letter or digit; the name of a
// host is one that may have up to kHostNameMax.
inline constexpr size_t kSegmentMax = 63;
inline constexpr size_t kHostNameMax = 253;

bool IsSegment(std::string_view text);
// Whether `host` may be the name of a worker.
bool IsHostName(std::string_view host);

// Takes the text up to the next slash, and the slash, off the front of `rest`.
std::string_view TakeSegment(std::string_view& rest);

// The job of a name jobs/{job}/{collection}/{id}; "" if the name has another form.
std::string_view JobOfChild(std::string_view name, std::string_view collection);

// jobs/{job}/states/{state}. Returns the job. INVALID_ARGUMENT names `field`.
absl::StatusOr<std::string> ParseStateName(std::string_view field, std::string_view name);

}  // namespace remesh
