// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/files/mapped_file.h"
#include "planner/values/box.h"
#include "planner/values/element_type.h"
#include "remesh/v1/local.pb.h"

namespace remesh::client {

// A mapped buffer of this host's worker.
struct LocalShard {
  std::string array;
  planner::ElementType type = planner::ElementType::kU8;
  planner::Shape shape;  // of the whole array
  int64_t device = 0;
  planner::Box box;             // within shape
  absl::Span<std::byte> bytes;  // dense row-major over the box; read-only unless mapped writable
};

// Buffers, and the files that hold them.
class LocalShards {
 public:
  // Maps the shards in a worker's response. INTERNAL (BAD_SHARD) for a shard that contradicts
  // itself.
  static absl::StatusOr<LocalShards> Map(const v1::ShardsResponse& response, bool writable);

  const std::vector<LocalShard>& shards() const { return shards_; }
  int64_t total_bytes() const;

 private:
  std::vector<MappedFile> files_;
  std::vector<LocalShard> shards_;
};

}  // namespace remesh::client
