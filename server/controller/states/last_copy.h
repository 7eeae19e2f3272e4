// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/states/state_registry.h"

namespace remesh::server {

// Why a generation that a host owes may be the last copy of its content, for people; nullopt: the
// journal proves that it is not, because every host of the state is attached and holds the state's
// generation, which is as new. Says nothing of copies on other hosts that owe the same generation:
// those may be discarded next. Pure.
std::optional<std::string> WhyLastCopy(const v1::StateManifest& owed, const StateRegistry& states,
                                       const WorkerRegistry& workers);

// FAILED_PRECONDITION (LAST_COPY): the answer to a DiscardShards that would free these generations
// without consent. REQUIRES: `response` has last_copies.
absl::Status LastCopyError(const std::string& host, const v1::DiscardShardsRequest& request,
                           const v1::DiscardShardsResponse& response);

}  // namespace remesh::server
