// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/local_shards.h"
#include "remesh/v1/local.grpc.pb.h"

namespace remesh::client {

// The shards of the newest readable generation on this host, mapped for reading. `request` names
// the state and the shards, and its generation does not count. Nothing if the worker does not show
// the shards, because not all of them are sealed. FAILED_PRECONDITION (SHARDS_LENT) if a trainer
// lends them.
absl::StatusOr<std::optional<LocalShards>> FindSealedShards(const Endpoint& worker,
                                                            v1::LocalService::Stub& stub,
                                                            v1::GetShardsRequest request);

}  // namespace remesh::client
