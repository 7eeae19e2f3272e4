// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace remesh::proto {

// Refuses JSON that protobuf's parser would accept silently or interpret in its own way: repeated
// keys in one object, and null or an array as an element of an array. Also refuses bad syntax and
// anything over the limits of text_limits.h. INVALID_ARGUMENT with line and column.
absl::Status CheckJson(std::string_view json);

// A path of protobuf's JSON parser ("shardings[0].value.hlo_text") with the keys of map entries
// instead of their numbers ("shardings[rows].hlo_text"). REQUIRES: CheckJson() passed.
std::string PathWithKeys(std::string_view json, std::string_view path);

}  // namespace remesh::proto
