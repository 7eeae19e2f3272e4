// SPDX-License-Identifier: Apache-2.0
#include "client/output.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/util/time_util.h"
#include "proto/spec/text.h"

namespace remesh {

std::string Table::ToString() const {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      absl::StrAppend(&text, row[i], std::string(widths[i] - row[i].size() + 2, ' '));
    }
    absl::StrAppend(&text, row.empty() ? "" : row.back(), "\n");
  }
  return text;
}

void Print(OutputFormat format, const google::protobuf::Message& message,
           absl::FunctionRef<Table()> table) {
  if (format == OutputFormat::kJson) {
    std::cout << ToJson(message, /*pretty=*/true) << std::flush;
  } else {
    std::cout << table().ToString() << std::flush;
  }
}

void AddTargetOrders(const google::protobuf::RepeatedPtrField<v1::TargetDeviceList>& lists,
                     Table& table) {
  constexpr int kShown = 16;
  for (const v1::TargetDeviceList& list : lists) {
    const auto& ids = list.devices().ids();
    const auto end = ids.begin() + std::min(ids.size(), kShown);
    table.AddRow({"target order",
                  absl::StrCat(absl::StrJoin(ids.begin(), end, ","), end == ids.end() ? "" : ",...",
                               " (", ids.size(), " devices, ", list.arrays_size(), " arrays)")});
  }
}

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1000 && unit < 6; ++unit) value /= 1000;
  if (unit == 0) return absl::StrCat(bytes, " B");
  return absl::StrFormat("%.2f %s", value, kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (seconds >= 1 || seconds == 0) return absl::StrFormat("%.2f s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds >= 1e-6) return absl::StrFormat("%.1f us", seconds * 1e6);
  return absl::StrFormat("%.0f ns", seconds * 1e9);
}

std::string FormatTime(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0 && time.nanos() == 0) return "-";
  google::protobuf::Timestamp whole;
  whole.set_seconds(time.seconds());
  return google::protobuf::util::TimeUtil::ToString(whole);
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

}  // namespace remesh
