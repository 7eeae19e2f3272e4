// SPDX-License-Identifier: Apache-2.0
#include "worker/join_token.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "base/error.h"
#include "service/log/log.h"
#include "service/process/small_file.h"

namespace remesh::worker {

absl::StatusOr<std::string> ReadJoinToken(const std::string& path) {
  if (path.empty()) return "";
  const absl::StatusOr<std::string> text = service::ReadSmallFile(path);
  if (!text.ok()) {
    return InvalidField("join_token_file", path, std::string(text.status().message()));
  }
  std::string token = text->substr(0, text->find('\n'));
  absl::StripAsciiWhitespace(&token);
  if (!token.empty()) return token;
  return InvalidField("join_token_file", path, "must have a token in its first line");
}

const std::string& JoinToken::Read() {
  absl::StatusOr<std::string> token = ReadJoinToken(path_);
  if (!token.ok() && token.status() != problem_) {
    service::LogWarning("the join token stays as it was", {{"error", token.status()}});
  }
  problem_ = token.status();
  if (token.ok()) token_ = *std::move(token);
  return token_;
}

}  // namespace remesh::worker
