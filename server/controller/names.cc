// SPDX-License-Identifier: Apache-2.0
#include "server/controller/names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {
namespace {

constexpr size_t kSegmentMax = 63;
constexpr size_t kHostMax = 253;

bool IsSegment(std::string_view text, size_t length_max) {
  if (text.empty() || text.size() > length_max || !absl::ascii_isalnum(text[0])) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '_' && c != '-') return false;
  }
  return true;
}

// Takes "{prefix}{segment}" off the front of `rest`; the segment ends at '/' or the end.
bool TakeSegment(std::string_view& rest, std::string_view prefix, std::string_view& segment) {
  if (rest.substr(0, prefix.size()) != prefix) return false;
  rest.remove_prefix(prefix.size());
  segment = rest.substr(0, rest.find('/'));
  rest.remove_prefix(segment.size());
  return IsSegment(segment, kSegmentMax);
}

absl::StatusOr<std::string> ParseChild(std::string_view field, std::string_view name,
                                       std::string_view collection, std::string_view expectation) {
  std::string_view rest = name, job, id;
  if (!TakeSegment(rest, "jobs/", job) || !TakeSegment(rest, collection, id) || !rest.empty()) {
    return InvalidField(field, name, expectation);
  }
  return std::string(job);
}

}  // namespace

bool IsHostName(std::string_view host) { return IsSegment(host, kHostMax); }

absl::StatusOr<std::string> ParseStateName(std::string_view field, std::string_view name) {
  return ParseChild(field, name, "/states/",
                    "must be jobs/{job}/states/{state}, each 1 to 63 of [A-Za-z0-9._-]");
}

absl::StatusOr<std::string> ParseExecutionName(std::string_view field, std::string_view name) {
  return ParseChild(field, name, "/executions/",
                    "must be jobs/{job}/executions/{id}, each 1 to 63 of [A-Za-z0-9._-]");
}

absl::StatusOr<std::string> ParseWorkerName(std::string_view field, std::string_view name) {
  constexpr std::string_view kPrefix = "workers/";
  if (name.substr(0, kPrefix.size()) != kPrefix || !IsHostName(name.substr(kPrefix.size()))) {
    return InvalidField(field, name, "must be workers/{host}");
  }
  return std::string(name.substr(kPrefix.size()));
}

absl::StatusOr<std::string> ParseParent(std::string_view field, std::string_view parent) {
  if (parent.empty() || parent == "jobs/-") return std::string();
  std::string_view rest = parent, job;
  if (!TakeSegment(rest, "jobs/", job) || !rest.empty()) {
    return InvalidField(field, parent, "must be jobs/{job}, jobs/- or empty");
  }
  return absl::StrCat("jobs/", std::string(job), "/");
}

}  // namespace remesh::server
