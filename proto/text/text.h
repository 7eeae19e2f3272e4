// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remesh::proto {

// Reads a message from JSON (protobuf's mapping; lowerCamel and proto names) or YAML. A text whose
// first character other than space is '{' is JSON. YAML becomes JSON with every scalar a string:
// depth <= 32, <= 10^6 nodes, no duplicate keys, no cyclic aliases (an alias counts each time it is
// used). Both may have numbers with units and pasted texts of shardings (spec_json.h). Refuses
// unknown fields. INVALID_ARGUMENT names line or field; for bad fields it has further problems, and
// `message` has the rest of the text.
absl::Status ParseText(std::string_view text, google::protobuf::Message& message);

// The message as JSON with every field printed, lowerCamel, int64 as strings, enums by name; one
// line unless `pretty`.
std::string ToJson(const google::protobuf::Message& message, bool pretty);

}  // namespace remesh::proto
