// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace remesh {

// The part of an error that a refused caller can act on. `reason` is UPPER_SNAKE_CASE and stable.
// `metadata` holds every value that appears in the message (AIP-193). service/ turns an ErrorInfo
// into google.rpc.ErrorInfo with domain "remesh".
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

// Returns `status` with `path` in front of the field that it names: "source" + "hlo_text" ->
// "source.hlo_text", "arrays" + "[3].shape" -> "arrays[3].shape". A status that names no field gets
// `path` and a colon in front of its message instead; OK stays OK.
absl::Status AtField(std::string_view path, const absl::Status& status);

// AtField() with the path of a list's entry, such as "arrays[3]". Builds the path only for errors,
// so that a check of every entry of a long list costs nothing extra.
absl::Status AtIndex(std::string_view list, size_t index, const absl::Status& status);

// The info that a status carries. Without one: reason = the code's name, no metadata.
ErrorInfo GetErrorInfo(const absl::Status& status);

}  // namespace remesh
