// SPDX-License-Identifier: Apache-2.0
#include "server/callers/join_tokens.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "server/controller/values/enrolment.h"
#include "service/process/small_file.h"

namespace remesh::server {

absl::StatusOr<std::set<std::string>> ReadJoinTokens(const std::string& path) {
  const absl::StatusOr<std::string> text = service::ReadSmallFile(path);
  if (!text.ok())
    return InvalidField("join_token_file", path, std::string(text.status().message()));
  std::set<std::string> hashes;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    ++number;
    const std::string token(absl::StripAsciiWhitespace(line));
    if (token.empty()) continue;
    if (token.size() < 16 || token.size() > 1024) {
      return InvalidField("join_token_file", path,
                          absl::StrCat("must hold tokens of 16 to 1024 characters; line ", number,
                                       " has ", token.size()));
    }
    hashes.insert(HashSecret(token));
  }
  if (hashes.empty()) return InvalidField("join_token_file", path, "must hold a token");
  return hashes;
}

bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") || absl::StartsWith(address, "localhost:") ||
         absl::StartsWith(address, "[::1]:") || absl::StartsWith(address, "unix:");
}

}  // namespace remesh::server
