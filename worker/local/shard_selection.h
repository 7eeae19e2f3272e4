// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "remesh/v1/local.pb.h"
#include "worker/store/buffer_store.h"

namespace remesh::worker {

using ShardSelectors = google::protobuf::RepeatedPtrField<v1::ShardSelector>;

// Indices of the shards that any selector names, rising; all of them without selectors. NOT_FOUND
// (SHARD_NOT_FOUND; "shards[2].array") for a selector that names an array that the state does not
// have, or a device without shards here.
absl::StatusOr<std::vector<int>> SelectShards(const Generation& generation,
                                              const ShardSelectors& selectors);

// The buffers of a generation, for trainers.
v1::ShardsResponse DescribeShards(const Generation& generation, const std::vector<int>& shards);

}  // namespace remesh::worker
