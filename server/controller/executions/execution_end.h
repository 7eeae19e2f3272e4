// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "remesh/v1/reshard.pb.h"
#include "server/controller/executions/remembered_executions.h"
#include "server/controller/states/state_registry.h"
#include "server/controller/states/states.h"
#include "server/controller/values/action.h"
#include "server/controller/values/follow_up.h"

namespace remesh::server {

// What an execution leaves when it ends.

// The effect on its state of the end that is saved as `what`.
ExecutionEnd EffectOf(const ExecutionEntry& entry, const StateEntry& state, Save what);

// Its figures, for metrics: how long it took, the bytes that it moved and, where it succeeded, what
// the plan predicted and what the transfers took.
ExecutionEnded FiguresOf(const v1::Execution& resource);

// A line of the log.
std::string EndLine(const v1::Execution& resource);

}  // namespace remesh::server
