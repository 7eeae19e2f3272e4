// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::proto {

// Limits on a text, JSON or YAML, before it becomes a message.
inline constexpr size_t kSpecBytesMax = size_t{64} << 20;  // also of the JSON that YAML expands to
inline constexpr int kSpecDepthMax = 32;
inline constexpr int64_t kSpecNodesMax = 1'000'000;  // of YAML, aliases counted as often as used

// INVALID_ARGUMENT, reason INVALID_TEXT: "line 3, column 5: what". Both count from 1.
inline absl::Status TextError(size_t line, size_t column, std::string_view what) {
  const std::string l = absl::StrCat(line), c = absl::StrCat(column), w(what);
  return MakeError(
      absl::StatusCode::kInvalidArgument, absl::StrCat("line ", l, ", column ", c, ": ", w),
      {.reason = "INVALID_TEXT", .metadata = {{"line", l}, {"column", c}, {"problem", w}}});
}

}  // namespace remesh::proto
