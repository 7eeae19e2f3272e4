// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace remesh::worker {

inline constexpr size_t kWriteBytesMax = 64;

// The name that a job gives a write of its shards; empty: no name. INVALID_ARGUMENT naming `write`
// if it is longer than kWriteBytesMax, or has anything but printable ASCII and spaces: such a name
// looks alike in every log and terminal.
absl::Status CheckWriteName(std::string_view write);

}  // namespace remesh::worker
