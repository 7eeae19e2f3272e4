// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace remesh {

// What a refused caller can act on. `reason` is UPPER_SNAKE_CASE and stable; every value in the
// message stands in `metadata` too (AIP-193). service/ turns it into google.rpc.ErrorInfo with
// domain "remesh".
struct ErrorInfo {
  std::string reason;
  std::map<std::string, std::string> metadata;

  friend bool operator==(const ErrorInfo&, const ErrorInfo&) = default;
};

// A status that carries `info`.
absl::Status MakeError(absl::StatusCode code, std::string_view message, const ErrorInfo& info);

// INVALID_ARGUMENT, reason INVALID_FIELD: `field: value "value" expectation`, as in
//   InvalidField("shape[1]", "-3", "must be >= 0").
// A value longer than 200 bytes is shortened; bytes that are not printable ASCII are escaped.
absl::Status InvalidField(std::string_view field, std::string_view value,
                          std::string_view expectation);

// The same status with `path` put before the field that it names: "source" + "hlo_text" ->
// "source.hlo_text", "arrays" + "[3].shape" -> "arrays[3].shape". OK and statuses that name no
// field come back unchanged but for the message, which `path` and a colon precede.
absl::Status AtField(std::string_view path, const absl::Status& status);

// AtField of an entry of a list: "arrays[3]". The path is made for errors only, so that a check of
// every entry of a long list costs none.
absl::Status AtIndex(std::string_view list, size_t index, const absl::Status& status);

// The info that a status carries, or reason = the code's name with no metadata.
ErrorInfo GetErrorInfo(const absl::Status& status);

}  // namespace remesh
