// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace remesh::client {

// Reads a file of at most 64 MiB; "-" is stdin.
absl::StatusOr<std::string> ReadText(const std::string& path);

// Parses the file, read as by ReadText(), as JSON or YAML.
absl::Status ReadMessage(const std::string& path, google::protobuf::Message& message);

// NOT_FOUND (FILE_NOT_FOUND) unless `path` is a folder.
absl::Status CheckFolder(const std::string& path);

// Adds the name of the file to a refusal of its contents; returns other statuses unchanged.
absl::Status AtFile(const std::string& path, const absl::Status& status);

}  // namespace remesh::client
