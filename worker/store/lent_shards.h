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

// Memory of a trainer, mapped: of the host, or of a device.
struct LentMemory {
  MappedFile host;
  std::shared_ptr<std::byte> device;  // null: it is the host's
  int64_t missing_bytes = 0;          // at most: pages that the first access makes
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

// Maps what is behind a descriptor, which stays the caller's. kind: "host", or that of `segments`'
// devices (which may be null: there are none). INVALID_ARGUMENT.
absl::StatusOr<LentMemory> MapLentMemory(const std::string& kind, const std::string& device_uuid,
                                         int local_device, int fd, int64_t bytes,
                                         DeviceSegments* segments);

}  // namespace remesh::worker
