// SPDX-License-Identifier: Apache-2.0
#include "client/output.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "client/yaml_output.h"
#include "google/protobuf/util/time_util.h"
#include "proto/text/text.h"

namespace remesh::client {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Appends the name of a resource, or of each resource that a list or answer contains, one a line.
void AppendNames(const Message& message, std::string& names) {
  const auto* reflection = message.GetReflection();
  if (const FieldDescriptor* name = message.GetDescriptor()->FindFieldByName("name")) {
    const std::string text = reflection->GetString(message, name);
    if (!text.empty()) absl::StrAppend(&names, text, "\n");
    return;
  }
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (field->message_type()->FindFieldByName("name") == nullptr) continue;
    if (!field->is_repeated()) AppendNames(reflection->GetMessage(message, field), names);
    for (int i = 0; field->is_repeated() && i < reflection->FieldSize(message, field); ++i) {
      AppendNames(reflection->GetRepeatedMessage(message, field, i), names);
    }
  }
}

std::string NamesOf(const Message& message) {
  std::string names;
  AppendNames(message, names);
  return names;
}

}  // namespace

void Print(OutputFormat format, const Message& message, absl::FunctionRef<Table()> table) {
  switch (format) {
    case OutputFormat::kJson:
      std::cout << proto::ToJson(message, /*pretty=*/true);
      break;
    case OutputFormat::kYaml:
      std::cout << ToYaml(message);
      break;
    case OutputFormat::kName:
      std::cout << NamesOf(message);
      break;
    default:
      std::cout << table().ToString(format == OutputFormat::kWide);
  }
  std::cout << std::flush;
}

void PrintNext(OutputFormat format, const Message& message, std::string_view line) {
  switch (format) {
    case OutputFormat::kJson:
      std::cout << proto::ToJson(message, /*pretty=*/false) << "\n";
      break;
    case OutputFormat::kYaml:
      std::cout << "---\n" << ToYaml(message);
      break;
    case OutputFormat::kName:
      std::cout << NamesOf(message);
      break;
    default:
      std::cout << line << "\n";
  }
  std::cout << std::flush;
}

absl::Status CheckStdout() {
  std::cout.flush();
  if (std::cout) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable, "stdout does not take the whole answer",
                   {.reason = "OUTPUT_NOT_WRITTEN", .metadata = {}});
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

void AddAssumed(int32_t hosts, Table& table) {
  if (hosts == 0) return;
  table.AddRow({"capacities",
                absl::StrCat("assumed for ", hosts, hosts == 1 ? " host" : " hosts",
                             ", so the prediction may be far off: remeshctl topology get shows "
                             "which, their workers' setting preset corrects them")});
}

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1000 && unit < 6; ++unit) value /= 1000;
  if (unit == 0) return absl::StrCat(bytes, " B");
  return absl::StrFormat("%.2f %s", value, kUnits[unit]);
}

std::string FormatRate(double bytes_per_second) {
  return absl::StrCat(FormatBytes(std::llround(bytes_per_second)), "/s");
}

std::string FormatSeconds(double seconds) {
  if (seconds >= 1 || seconds == 0) return absl::StrFormat("%.2f s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds >= 1e-6) return absl::StrFormat("%.1f µs", seconds * 1e6);
  return absl::StrFormat("%.4g ns", seconds * 1e9);
}

std::string FormatTime(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0 && time.nanos() == 0) return "-";
  google::protobuf::Timestamp whole;
  whole.set_seconds(time.seconds());
  return google::protobuf::util::TimeUtil::ToString(whole);
}

std::string FormatNow() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

}  // namespace remesh::client
