// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace remesh::client {

// Reads a file, "-" being stdin. At most 64 MiB.
absl::StatusOr<std::string> ReadText(const std::string& path);

// Reads a message as JSON or YAML, as ReadText() does.
absl::Status ReadMessage(const std::string& path, google::protobuf::Message& message);

// NOT_FOUND (FILE_NOT_FOUND) unless `path` is a folder.
absl::Status CheckFolder(const std::string& path);

// A refusal of what was read from `path`, that names the file; other statuses as they are.
absl::Status AtFile(const std::string& path, const absl::Status& status);

}  // namespace remesh::client
