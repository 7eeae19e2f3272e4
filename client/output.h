// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/table.h"
#include "google/protobuf/message.h"
#include "google/protobuf/timestamp.pb.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::client {

// kWide is a table with every column, kName the names of what would be its rows.
enum class OutputFormat { kTable, kWide, kJson, kYaml, kName };

inline bool IsTable(OutputFormat format) {
  return format == OutputFormat::kTable || format == OutputFormat::kWide;
}

// Writes `message` to stdout: whole, or as `table` says.
void Print(OutputFormat format, const google::protobuf::Message& message,
           absl::FunctionRef<Table()> table);

// Writes one of many messages that come one after another: on a line of JSON, or as `line` says.
void PrintNext(OutputFormat format, const google::protobuf::Message& message,
               std::string_view line);

// UNAVAILABLE (OUTPUT_NOT_WRITTEN) once something that was written to stdout got lost.
absl::Status CheckStdout();

// A row for each list of target devices whose order the planner chose: how many arrays it is of,
// and its first devices.
void AddTargetOrders(const google::protobuf::RepeatedPtrField<v1::TargetDeviceList>& lists,
                     Table& table);

std::string FormatBytes(int64_t bytes);                           // "2.47 GB", "12 B"
std::string FormatRate(double bytes_per_second);                  // "2.47 GB/s"
std::string FormatSeconds(double seconds);                        // "1.20 s", "3.4 ms", "0.48 ns"
std::string FormatTime(const google::protobuf::Timestamp& time);  // RFC 3339, UTC; "-" when unset
std::string OrDash(const std::string& text);                      // "-" when empty

}  // namespace remesh::client
