// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"

namespace remesh::server {

// Hashes of the tokens in a file of one token a line; see EnrolmentRules. INVALID_ARGUMENT names
// the setting join_token_file when the file cannot be read, holds no token, or holds a token
// shorter than 16 or longer than 1024 characters.
absl::StatusOr<std::set<std::string>> ReadJoinTokens(const std::string& path);

// Whether only processes of this machine can reach `address`, HOST:PORT.
bool IsLoopback(const std::string& address);

}  // namespace remesh::server
