// SPDX-License-Identifier: Apache-2.0
#include "worker/store/mapped_shards.h"

#include <algorithm>

#include "base/status_macros.h"

namespace remesh {

bool MappedShards::truncated() const {
  return std::any_of(files.begin(), files.end(),
                     [](const MappedFile& file) { return file.truncated(); });
}

absl::Status MappedShards::CheckWhole() const {
  for (const MappedFile& file : files) RETURN_IF_ERROR(file.CheckWhole());
  return absl::OkStatus();
}

}  // namespace remesh
