// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace remesh::server {

// Pages through a collection that is ordered by string keys (AIP-158). A page token names the last
// key of its page, so entries that come or go between pages cause no repetitions and no gaps.
struct PageStart {
  int32_t size = 0;   // 1 to 1000
  std::string after;  // list keys greater than this one
};

// `scope` identifies the other arguments of the request: a token of another scope is refused.
// INVALID_ARGUMENT: page_size, page_token.
absl::StatusOr<PageStart> ParsePage(int32_t page_size, std::string_view page_token,
                                    std::string_view scope);

std::string MakePageToken(std::string_view scope, std::string_view last_key);

// Appends make(value) to `page` for the entries whose value passes `keep`, until the page is full
// by number or by bytes. An entry larger than that has a page to itself. Returns the token of the
// next page, or "".
template <typename Value, typename Keep, typename Make, typename Message>
std::string FillPage(const std::map<std::string, Value>& entries, const PageStart& start,
                     std::string_view scope, Keep keep, Make make, size_t max_bytes,
                     google::protobuf::RepeatedPtrField<Message>& page) {
  size_t bytes = 0;
  std::string last;
  for (auto entry = entries.upper_bound(start.after); entry != entries.end(); ++entry) {
    if (!keep(entry->second)) continue;
    if (page.size() == start.size) return MakePageToken(scope, last);
    Message message = make(entry->second);
    bytes += message.ByteSizeLong() + 16;  // tag and length
    if (bytes > max_bytes && !page.empty()) return MakePageToken(scope, last);
    *page.Add() = std::move(message);
    last = entry->first;
  }
  return "";
}

}  // namespace remesh::server
