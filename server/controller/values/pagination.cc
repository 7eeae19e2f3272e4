// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/pagination.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {
namespace {

constexpr int32_t kSizeDefault = 50;
constexpr int32_t kSizeMax = 1000;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::StatusOr<PageStart> ParsePage(int32_t page_size, std::string_view page_token,
                                    std::string_view scope) {
  if (page_size < 0) return InvalidField("page_size", absl::StrCat(page_size), "must be >= 0");
  PageStart start{.size = page_size == 0 ? kSizeDefault : std::min(page_size, kSizeMax),
                  .after = ""};
  if (page_token.empty()) return start;
  std::string plain;
  const bool decoded = absl::WebSafeBase64Unescape(View(page_token), &plain);
  const size_t end_of_scope = plain.find('\n');
  if (!decoded || end_of_scope == std::string::npos || plain.substr(0, end_of_scope) != scope) {
    return InvalidField("page_token", page_token,
                        "must be the next_page_token of the same request");
  }
  start.after = plain.substr(end_of_scope + 1);
  return start;
}

std::string MakePageToken(std::string_view scope, std::string_view last_key) {
  return absl::WebSafeBase64Escape(absl::StrCat(View(scope), "\n", View(last_key)));
}

}  // namespace remesh::server
