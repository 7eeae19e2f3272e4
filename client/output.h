// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "google/protobuf/message.h"
#include "google/protobuf/timestamp.pb.h"
#include "remesh/v1/plan.pb.h"

namespace remesh {

enum class OutputFormat { kTable, kJson };

// Columns of text for people: as wide as their widest cell, two spaces between, numbers as given.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Writes `message` to stdout, as JSON or as `table` says.
void Print(OutputFormat format, const google::protobuf::Message& message,
           absl::FunctionRef<Table()> table);

// A row for each list of target devices whose order the planner chose: how many arrays it is of,
// and its first devices.
void AddTargetOrders(const google::protobuf::RepeatedPtrField<v1::TargetDeviceList>& lists,
                     Table& table);

std::string FormatBytes(int64_t bytes);                           // "2.47 GB", "12 B"
std::string FormatSeconds(double seconds);                        // "1.20 s", "3.4 ms", "32 ns"
std::string FormatTime(const google::protobuf::Timestamp& time);  // RFC 3339, UTC; "-" when unset
std::string OrDash(const std::string& text);                      // "-" when empty

}  // namespace remesh
