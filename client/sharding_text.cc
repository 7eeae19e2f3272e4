// SPDX-License-Identifier: Apache-2.0
#include "client/sharding_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"

namespace remesh::client {
namespace {

absl::StatusOr<int64_t> ParseInteger(const std::string& field, const std::string& text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return InvalidField(field, text, "must be a whole number");
  return value;
}

}  // namespace

bool IsShardyText(std::string_view text) {
  const absl::string_view stripped = absl::StripLeadingAsciiWhitespace({text.data(), text.size()});
  return absl::StartsWith(stripped, "#sdy") || absl::StartsWith(stripped, "sdy.");
}

v1::Sharding ShardingOfText(const std::string& text) {
  v1::Sharding sharding;
  if (IsShardyText(text)) {
    sharding.set_sdy_text(text);
  } else {
    sharding.set_hlo_text(text);
  }
  return sharding;
}

absl::StatusOr<std::vector<int64_t>> ParseIntegers(const std::string& field,
                                                   const std::string& text) {
  std::vector<int64_t> values;
  if (text.empty()) return values;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    ASSIGN_OR_RETURN(const int64_t value, ParseInteger(field, part));
    values.push_back(value);
  }
  return values;
}

absl::StatusOr<v1::DeviceList> ParseDevices(const std::string& text) {
  v1::DeviceList devices;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    // "10..13", or "10-13" as in the shell's cut.
    const bool dots = absl::StrContains(part, "..");
    const std::vector<std::string> ends =
        absl::StrSplit(part, absl::MaxSplits(dots ? ".." : "-", 1));
    ASSIGN_OR_RETURN(const int64_t first, ParseInteger("--devices", ends[0]));
    int64_t last = first;
    if (ends.size() == 2) {
      ASSIGN_OR_RETURN(last, ParseInteger("--devices", ends[1]));
    }
    if (first < 0 || last < first || last - first >= planner::kPositionsMax - devices.ids_size()) {
      return InvalidField("--devices", part,
                          absl::StrCat("must be an ascending range, such as 0..3, of at most ",
                                       planner::kPositionsMax, " devices"));
    }
    for (int64_t id = first; id <= last; ++id) devices.add_ids(id);
  }
  return devices;
}

}  // namespace remesh::client
