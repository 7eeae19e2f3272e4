// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/store/buffer_file.h"
#include "worker/store/device_segments.h"

namespace remesh::worker {

// Mapped memory of a trainer, on the host or on a device.
struct LentMemory {
  MappedFile host;
  std::shared_ptr<std::byte> device;  // null: it is the host's
  int64_t missing_bytes = 0;          // at most; of pages that the first access makes
};

// The shards of a generation in memory that a trainer lends.
struct LentShards {
  struct Place {
    int memory = 0;
    int64_t offset = 0;
  };

  std::vector<LentMemory> memories;
  std::vector<Place> places;  // by shard, as in the assignment
};

// Maps the memory behind a descriptor, which stays the caller's. `kind` is "host", or that of the
// devices of `segments` (null: there are none). INVALID_ARGUMENT.
absl::StatusOr<LentMemory> MapLentMemory(const std::string& kind, const std::string& device_uuid,
                                         int local_device, int fd, int64_t bytes,
                                         DeviceSegments* segments);

}  // namespace remesh::worker
