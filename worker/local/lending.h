// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "remesh/v1/local.pb.h"
#include "worker/store/buffer_store.h"

namespace remesh::worker {

// Maps the memory that the user `lender` lends for all shards of an assignment. `request` must place
// every shard exactly once. The call uses up the request's tokens. Errors: INVALID_ARGUMENT naming
// the field ("shards[3].offset", "memories[0].token", "lease"); PERMISSION_DENIED
// (LEASE_OF_ANOTHER_USER).
absl::StatusOr<LentShards> MapLentShards(const v1::LendRequest& request, uid_t lender,
                                         const v1::Assignment& assignment,
                                         const ShardPlaces& places, BufferStore& store);

}  // namespace remesh::worker
