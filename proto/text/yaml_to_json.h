// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remesh::proto {

// One YAML document as JSON in which every scalar but null is a string. Stays within text_limits.h
// while it reads: aliases are expanded and count each time they are used. INVALID_ARGUMENT with
// line and column for bad syntax, several documents, repeated or compound keys, aliases inside
// their own anchor, and anything over the limits.
absl::StatusOr<std::string> YamlToJson(std::string_view yaml);

}  // namespace remesh::proto
