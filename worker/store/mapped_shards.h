// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "remesh/v1/worker.pb.h"
#include "worker/device/device.h"
#include "worker/device/shard_view.h"
#include "worker/files/buffer_file.h"
#include "worker/store/lease_table.h"

namespace remesh::worker {

// What a loan takes of the worker's limits (lending.h).
struct LoanSize {
  uid_t lender = 0;
  int64_t host_bytes = 0;
  int64_t memories = 0;
};

// A generation's shards in memory. They stay valid until the last owner is gone, whatever becomes
// of the files. Immutable.
struct MappedShards {
  // Both of lent memory alone, and both end after the memory. See LentShards for `lease`, which is
  // Held() until then.
  std::shared_ptr<const Lease> lease = nullptr;
  std::shared_ptr<const LoanSize> size = nullptr;
  v1::Assignment assignment;
  std::vector<ShardView> shards;  // as assignment.shards
  std::vector<MappedFile> files;  // as ShardPlaces::files; empty for memory of devices
  std::vector<std::shared_ptr<std::byte>> on_device = {};  // by file; null: it is a file
  std::vector<int> file_of = {};                           // by shard
  // Set if devices reach the memory of `mapped` by addresses of their own.
  std::shared_ptr<const MappedShards> mapped = nullptr;
  std::vector<std::shared_ptr<std::byte>> registered = {};

  // Whether another process was seen to truncate a file, or the lender is gone: every copy in or
  // out is void then.
  bool spoiled() const;
  // Like spoiled(), but looks at every file: FAILED_PRECONDITION (BUFFER_TRUNCATED, or SOURCE_LOST
  // with state and generation).
  absl::Status CheckWhole() const;
};

// The files of each local device's shards: few for a device. Memory of devices,
// or of a trainer, is in none.
std::vector<std::vector<const MappedFile*>> FilesByDevice(const MappedShards& shards);

// Unmaps or closes at most kMemoriesAtATime of the memories, the last first. Returns true when none
// is left.
inline constexpr int kMemoriesAtATime = 64;
bool EndSome(MappedShards& mapped);

// The same shards by the addresses at which the devices reach them (MappedFile::ReachedBy()).
// Errors: as Device::Register().
absl::StatusOr<std::shared_ptr<const MappedShards>> ReachedBy(
    const LocalDevices& devices, std::shared_ptr<const MappedShards> mapped);

}  // namespace remesh::worker
