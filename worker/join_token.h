// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remesh::worker {

// The token in the first line of the file; "" without a path. INVALID_ARGUMENT naming the setting
// join_token_file.
absl::StatusOr<std::string> ReadJoinToken(const std::string& path);

// The token of a file that an operator may replace while the worker runs. Not thread-safe.
class JoinToken {
 public:
  // `token` is what the file held at the start.
  JoinToken(std::string path, std::string token)
      : path_(std::move(path)), token_(std::move(token)) {}

  // Reads the file. While it has no token the last one stays, and the log says why, once for each
  // reason.
  const std::string& Read();

 private:
  const std::string path_;
  std::string token_;
  absl::Status problem_;
};

}  // namespace remesh::worker
