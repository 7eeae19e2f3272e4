// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/files/buffer_file.h"
#include "worker/store/device_segments.h"
#include "worker/store/mapped_shards.h"

namespace remesh::worker {

// A trainer's memory, mapped into the worker. It is on the host or on a device.
struct LentMemory {
  MappedFile host;
  std::shared_ptr<std::byte> device;  // null: the memory is on the host
  int64_t missing_bytes = 0;          // upper bound, for pages that do not exist yet
};

// The shards of a generation whose memory a trainer lends.
struct LentShards {
  struct Place {
    int memory = 0;
    int64_t offset = 0;
  };

  // Has `lease`, and by memory `files` and `on_device`; the rest is empty. When the lease ends, all
  // memory is lost; null: the memory does not depend on the lender's life.
  std::shared_ptr<MappedShards> mapped;
  int64_t missing_bytes = 0;  // of all memories, as in LentMemory
  std::vector<Place> places;  // by shard, as in the assignment
  std::string write = {};     // LendRequest.write
};

// Kind and device of lent memory, as the lender states them. `kind` is "host" or the kind of the
// worker's devices.
struct LentKind {
  std::string kind;
  std::string device_uuid;
  int local_device = 0;  // the local device whose shards the memory holds
};

// Maps the memory that the descriptor `fd` refers to; the caller keeps `fd`. `segments` is null if
// the worker has no devices. Errors: INVALID_ARGUMENT.
absl::StatusOr<LentMemory> MapLentMemory(const LentKind& kind, int fd, int64_t bytes,
                                         DeviceSegments* segments);

// A device allocation, named by its CUDA legacy IPC handle.
struct LentAllocation {
  uid_t user = 0;  // who lends it
  std::string handle;
  int64_t bytes = 0;
  int64_t offset = 0;  // of the memory in the allocation; at most `bytes`
};

// Like MapLentMemory(), for memory in a device allocation. Opens the allocation unless it is
// already open for its user.
absl::StatusOr<LentMemory> OpenLentMemory(const LentKind& kind, const LentAllocation& allocation,
                                          DeviceSegments* segments);

}  // namespace remesh::worker
