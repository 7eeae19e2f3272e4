// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/store/buffer_file.h"
#include "worker/store/device_segments.h"
#include "worker/store/lease_table.h"

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
  std::vector<Place> places;                     // by shard, as in the assignment
  std::shared_ptr<const Lease> lease = nullptr;  // of whose end all of it is lost; or null
};

// The kind of memory, as its lender states it. kind: "host", or that of the worker's devices.
struct LentKind {
  std::string kind;
  std::string device_uuid;
  int local_device = 0;  // that uses the memory
};

// Maps the memory behind a descriptor, which stays the caller's. `segments` is null if the worker
// has no devices. INVALID_ARGUMENT.
absl::StatusOr<LentMemory> MapLentMemory(const LentKind& kind, int fd, int64_t bytes,
                                         DeviceSegments* segments);

// An allocation by its handle of the legacy IPC.
struct LentAllocation {
  std::string handle;
  int64_t bytes = 0;
  int64_t offset = 0;  // of the memory in it; at most `bytes`
};

// The same for memory in an allocation: opened, unless it is already.
absl::StatusOr<LentMemory> OpenLentMemory(const LentKind& kind, const LentAllocation& allocation,
                                          DeviceSegments* segments);

}  // namespace remesh::worker
