// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace remesh::proto {

// JSON as people write it, made JSON as protobuf's parser takes it.
struct SpecJson {
  // Without the values that are wrong.
  std::string json;
  // OK, or what is wrong, in the text's order: INVALID_ARGUMENT with further problems. Fields are
  // paths with the keys of maps, as in "shardings[rows].hlo_text".
  absl::Status problems;
};

// Rewrites the JSON of a message of `type`:
// - numbers with a unit (base/text/units.h), where the field's name ends in one: bytes,
//   bytes_per_second or seconds;
// - texts where a sharding, a placement or a list of devices is expected (pasted.h), and a list of
//   ids as a list of devices.
// Finds fields that do not exist, values of another kind than the field's, and two fields of a
// oneof. REQUIRES: CheckJson() passed.
SpecJson ReadSpecJson(std::string_view json, const google::protobuf::Descriptor& type);

}  // namespace remesh::proto
