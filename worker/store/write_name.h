// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "worker/manifest.pb.h"

namespace remesh::worker {

inline constexpr size_t kWriteBytesMax = 64;

// The name that a job gives a write of its shards; empty: no name. INVALID_ARGUMENT naming `write`
// if it is longer than kWriteBytesMax, or has anything but printable ASCII and spaces: such a name
// looks alike in every log and terminal.
absl::Status CheckWriteName(std::string_view write);

inline constexpr int kReplacedMax = 8;  // names of writes that a manifest remembers

// Names the write, and remembers the name that it replaces. A name that comes back is a new write.
void RenameWrite(GenerationManifest& manifest, const std::string& write);

}  // namespace remesh::worker
