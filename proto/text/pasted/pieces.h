// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/sharding/text_scanner.h"
#include "proto/text/pasted/pasted.h"

// Pieces that the texts of all frameworks have.
namespace remesh::proto {

bool LooksAtQuote(const planner::TextScanner& scanner);

// A text between quotes of either kind.
absl::StatusOr<std::string> ReadQuoted(planner::TextScanner& scanner, std::string_view what);

// The same, or a word without quotes.
absl::StatusOr<std::string> ReadWord(planner::TextScanner& scanner, std::string_view what);

// Reads items with commas between them, and perhaps one behind the last, and takes `close`.
absl::Status ReadItems(planner::TextScanner& scanner, std::string_view close,
                       absl::FunctionRef<absl::Status()> item);

// Moves past a value of no interest, up to the comma or bracket behind it.
absl::Status SkipValue(planner::TextScanner& scanner);

// Takes `name=`, or nothing.
bool TakeKeyword(planner::TextScanner& scanner, std::string_view name);

// The number of devices of a mesh whose axes have these sizes; `at` is where the text has it.
absl::StatusOr<int64_t> CountDevices(const std::vector<int64_t>& sizes,
                                     const planner::TextScanner& scanner, size_t at);

// The ids of nested lists, as in [[0, 1], [2, 3]], and the sizes of the levels.
struct NestedIds {
  std::vector<int64_t> sizes;
  std::vector<int64_t> ids;
};

// [[0, 1], [2, 3]], alone or in array(...) or tensor(...).
absl::StatusOr<NestedIds> ReadIds(planner::TextScanner& scanner);

// A DeviceList of 0, 1, ... count - 1.
PastedJson DevicesUpTo(int64_t count);

PastedJson DevicesOf(const std::vector<int64_t>& ids);

}  // namespace remesh::proto
