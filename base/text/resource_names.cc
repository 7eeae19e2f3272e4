// SPDX-License-Identifier: Apache-2.0
#include "base/text/resource_names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "base/error.h"

namespace remesh {
namespace {

bool IsName(std::string_view text, size_t length_max) {
  if (text.empty() || text.size() > length_max || !absl::ascii_isalnum(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  });
}

}  // namespace

bool IsSegment(std::string_view text) { return IsName(text, kSegmentMax); }

bool IsHostName(std::string_view host) { return IsName(host, kHostNameMax); }

std::string_view TakeSegment(std::string_view& rest) {
  const size_t slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  rest = slash == rest.npos ? std::string_view() : rest.substr(slash + 1);
  return segment;
}

std::string_view JobOfChild(std::string_view name, std::string_view collection) {
  std::string_view rest = name;
  if (TakeSegment(rest) != "jobs") return "";
  const std::string_view job = TakeSegment(rest);
  if (!IsSegment(job) || TakeSegment(rest) != collection) return "";
  return IsSegment(rest) ? job : "";
}

absl::StatusOr<std::string> ParseStateName(std::string_view field, std::string_view name) {
  const std::string_view job = JobOfChild(name, "states");
  if (!job.empty()) return std::string(job);
  return InvalidField(
      field, name,
      "must be jobs/{job}/states/{state}, where {job} and {state} are 1 to 63 characters "
      "of [A-Za-z0-9._-]");
}

}  // namespace remesh
