// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace remesh {

// Reads a message as JSON or YAML from a file, "-" being stdin. At most 64 MiB.
absl::Status ReadMessage(const std::string& path, google::protobuf::Message& message);

}  // namespace remesh
