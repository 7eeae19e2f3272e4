// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "remesh/v1/local.pb.h"
#include "worker/store/buffer_store.h"

namespace remesh::worker {

using ShardSelectors = google::protobuf::RepeatedPtrField<v1::ShardSelector>;

// How many more selectors and devices a call may have than what this host has can need.
inline constexpr int kSpareSelectors = 1024;

// Indices of the shards that at least one selector names, in ascending order; all shards if there
// are no selectors. NOT_FOUND (SHARD_NOT_FOUND; "shards[2].array") if a selector names an array
// that the state does not have, or a device without shards on this host. INVALID_ARGUMENT
// ("shards") if the selectors and their devices are more than kSpareSelectors and twice the arrays
// and shards here.
absl::StatusOr<std::vector<int>> SelectShards(const Generation& generation,
                                              const ShardSelectors& selectors);

// Describes the buffers of the given shards of a generation, as trainers see them.
v1::ShardsResponse DescribeShards(const Generation& generation, const std::vector<int>& shards);

}  // namespace remesh::worker
