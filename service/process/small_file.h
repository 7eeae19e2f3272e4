// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace remesh::service {

constexpr size_t kSmallFileBytesMax = 16 << 20;

// Reads a file that an operator has named: settings, tokens, certificates. Never blocks and never
// takes more memory than kSmallFileBytesMax: refuses a pipe or a device. The message of NOT_FOUND
// or INVALID_ARGUMENT is meant to follow the path ("is a directory, not a file").
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace remesh::service
