// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/sharding/hlo_sharding.h"
#include "planner/sharding/named_sharding.h"
#include "remesh/xla/xla_data.pb.h"

namespace remesh::proto {

// The value of a serialized xla.OpSharding, of any of its versions: V1 (device lists), V2 (iota)
// and V3 (named). No bytes at all are a replicated sharding. INVALID_ARGUMENT (field "op_sharding",
// value the escaped bytes) for what does not decode, or says something that no sharding may:
// everything is checked, nothing ignored but tile_shape and the metadata that means nothing.
absl::StatusOr<planner::HloSharding> OpShardingFromBytes(std::string_view bytes);
// The bytes as XLA writes them.
std::string OpShardingToBytes(const planner::HloSharding& sharding);

// The same for messages. Errors are INVALID_ARGUMENT without a field.
absl::StatusOr<planner::HloSharding> FromProto(const xla::OpSharding& proto);
xla::OpSharding ToProto(const planner::HloSharding& sharding);

// A named sharding, canonical. INVALID_ARGUMENT without a field: see Canonicalized() and
// MakeMesh().
absl::StatusOr<planner::NamedSharding> FromProto(const xla::NamedShardingProto& proto);
xla::NamedShardingProto ToProto(const planner::NamedSharding& sharding);

}  // namespace remesh::proto
