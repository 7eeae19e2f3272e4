// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace remesh::service {

constexpr size_t kSmallFileBytesMax = 16 << 20;

// The text of a file that an operator has named: settings, tokens, certificates. Never waits and never
// takes more memory than that: a pipe or a device is refused. NOT_FOUND or INVALID_ARGUMENT with words
// that follow the path ("is a directory, not a file").
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace remesh::service
