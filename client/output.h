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

// kWide is a table with all columns; kName prints only the names of the table's rows.
enum class OutputFormat { kTable, kWide, kJson, kYaml, kName };

inline bool IsTable(OutputFormat format) {
  return format == OutputFormat::kTable || format == OutputFormat::kWide;
}

// Writes `message` to stdout: as a whole, or as `table`.
void Print(OutputFormat format, const google::protobuf::Message& message,
           absl::FunctionRef<Table()> table);

// Writes one of a series of messages: as one line of JSON, or as `line`.
void PrintNext(OutputFormat format, const google::protobuf::Message& message,
               std::string_view line);

// UNAVAILABLE (OUTPUT_NOT_WRITTEN) once output to stdout has been lost.
absl::Status CheckStdout();

// Adds a row for each target device list whose order the planner chose: its number of arrays and
// its first devices.
void AddTargetOrders(const google::protobuf::RepeatedPtrField<v1::TargetDeviceList>& lists,
                     Table& table);

// Adds a row that says how many hosts have assumed capacities; none if none has.
void AddAssumed(int32_t hosts_assumed, Table& table);

std::string FormatBytes(int64_t bytes);                           // "2.47 GB", "12 B"
std::string FormatRate(double bytes_per_second);                  // "2.47 GB/s"
std::string FormatSeconds(double seconds);                        // "1.20 s", "3.4 ms", "0.48 ns"
std::string FormatTime(const google::protobuf::Timestamp& time);  // RFC 3339, UTC; "-" when unset
std::string FormatNow();                                          // the same
std::string OrDash(const std::string& text);                      // "-" when empty

}  // namespace remesh::client
