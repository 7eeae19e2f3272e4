// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "remesh/v1/worker.pb.h"
#include "worker/device/device.h"
#include "worker/device/shard_view.h"
#include "worker/store/buffer_file.h"
#include "worker/store/lease_table.h"

namespace remesh::worker {

// A generation's shards in memory. They stay valid until the last owner is gone, whatever becomes
// of the files. Immutable.
struct MappedShards {
  std::shared_ptr<const Lease> lease = nullptr;  // see LentShards; it ends after the
                                                 // memory: Held() is true until then
  v1::Assignment assignment;
  std::vector<ShardView> shards;  // as assignment.shards
  std::vector<MappedFile> files;  // as ShardPlaces::files; empty for memory of devices
  std::vector<std::shared_ptr<std::byte>> on_device = {};  // by file; null: it is a file
  std::vector<int> file_of = {};                           // by shard
  // Set if devices reach the memory of `mapped` by addresses of their own.
  std::shared_ptr<const MappedShards> mapped = nullptr;
  std::vector<std::shared_ptr<std::byte>> registered = {};

  // Whether another process was seen to truncate a file, or the lender is gone: every copy in or out
  // is void then.
  bool spoiled() const;
  // Like spoiled(), but looks at every file: FAILED_PRECONDITION (BUFFER_TRUNCATED, or SOURCE_LOST
  // with state and generation).
  absl::Status CheckWhole() const;
};

// The same shards by the addresses at which the devices reach them. Errors: as Device::Register().
absl::StatusOr<std::shared_ptr<const MappedShards>> ReachedBy(
    const LocalDevices& devices, std::shared_ptr<const MappedShards> mapped);

}  // namespace remesh::worker
