// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "remesh/v1/reshard.pb.h"
#include "server/controller/executions/remembered_executions.h"
#include "server/controller/states/state_registry.h"
#include "server/controller/values/controller_options.h"
#include "server/controller/values/event.h"

namespace remesh::server {

// A request whose move is planned.
struct PlannedStart {
  const v1::StartExecutionRequest& request;
  Moment asked;  // when it came
  const PlannedExecution& move;
  const StateEntry& state;
};

// The execution's resource, as far as it is known before it has a name. `abandoned`: see
// State.abandoned_generation.
v1::Execution Preview(const v1::StartExecutionRequest& request, const PlannedExecution& move,
                      int64_t abandoned);

// The execution that carries out the move, queued; one that has nothing to do has ended.
ExecutionEntry MakeExecution(const PlannedStart& start, const std::string& name,
                             const ControllerOptions& options, Moment now);

}  // namespace remesh::server
