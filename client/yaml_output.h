// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "google/protobuf/message.h"

namespace remesh::client {

// A message as YAML, with the fields and values of ToJson(): ParseText() reads it back.
std::string ToYaml(const google::protobuf::Message& message);

}  // namespace remesh::client
