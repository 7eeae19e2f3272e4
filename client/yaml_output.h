// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "google/protobuf/message.h"

namespace remesh::client {

// A message as YAML, with the fields and values of ToJson(): ParseText() reads it back.
std::string ToYaml(const google::protobuf::Message& message);

// The same of a JSON object.
std::string ToYaml(const nlohmann::ordered_json& object);

}  // namespace remesh::client
