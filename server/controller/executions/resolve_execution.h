// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "remesh/v1/reshard.pb.h"
#include "server/controller/executions/remembered_executions.h"
#include "server/controller/states/state_registry.h"

namespace remesh::server {

// An operator may have the source generation kept, though the move is decided.

// INVALID_ARGUMENT: the request asks for something else. FAILED_PRECONDITION: NOT_COMMITTING, or
// SOURCE_NOT_WHOLE because a host of the source generation is away, or no longer has its shards.
absl::Status CheckResolve(const v1::ResolveExecutionRequest& request, const ExecutionEntry& entry,
                          const StateRegistry& states, const WorkerRegistry& workers);

// ABORTED (RESOLVED_KEEP_SOURCE): the error of an execution that is given up so.
absl::Status SourceIsKept();

}  // namespace remesh::server
