// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::proto {

// The most shards that columns may have: far beyond those of one message.
inline constexpr int kColumnShardsMax = 1 << 20;

// Writes shards one after another into columns, which must be empty and outlive it.
class ColumnsWriter {
 public:
  explicit ColumnsWriter(v1::ShardColumns& columns) : columns_(columns) {}

  void Reserve(int shards);
  // The next shard. AddRange() follows for each dimension of its box.
  void Add(int32_t array, int64_t device, int32_t local_device, std::string_view memory_kind);
  void AddRange(int64_t lo, int64_t hi);
  // To be called once, after the last shard.
  void Finish();

 private:
  int32_t KindOf(std::string_view name);

  v1::ShardColumns& columns_;
};

// Replaces `shards` by `columns`. Leaves them as they are if the columns could not say the same:
// if a shard's array is not in `arrays` or has another number of dimensions, or if there are more
// than kColumnShardsMax.
void ShardsToColumns(v1::Assignment& assignment);

// The reverse: replaces `columns`, if there are any, by `shards`. INVALID_ARGUMENT (fields
// "columns.devices", "columns.arrays[i]" ...) if the columns do not fit each other or the arrays,
// or name memory kinds of more than 32 bytes, or there are shards already.
absl::Status ColumnsToShards(v1::Assignment& assignment);

}  // namespace remesh::proto
