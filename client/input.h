// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace remesh::client {

// Reads a file of at most 64 MiB; "-" is stdin, which is read once: every call returns its text.
absl::StatusOr<std::string> ReadText(const std::string& path);

// Parses the file, read as by ReadText(), as JSON or YAML. Errors have the file and the lines, as
// of AtFile(); those of a spec include what the planner would say of the parts that can be read.
absl::Status ReadMessage(const std::string& path, google::protobuf::Message& message);

// NOT_FOUND (FILE_NOT_FOUND) unless `path` is a folder.
absl::Status CheckFolder(const std::string& path);

// Adds the name of the file, and the line of each field, to a refusal of its contents: a status
// with metadata "file" and "line", whose message begins "FILE:LINE: ". The problem that comes first
// in the file is the first of all. Returns other statuses unchanged.
absl::Status AtFile(const std::string& path, const absl::Status& status);

}  // namespace remesh::client
