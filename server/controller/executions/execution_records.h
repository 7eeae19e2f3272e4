// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "server/controller/executions/remembered_executions.h"
#include "server/controller/states/state_registry.h"
#include "server/controller/values/event.h"
#include "server/controller/values/follow_up.h"
#include "server/controller/values/records.h"

namespace remesh::server {

// An execution in the journal: what is written of it, and what is made of that after a restart.

// What the journal must have after `what`, in one transaction: the execution, and the state as that
// leaves it.
std::vector<Record> RecordsOf(const ExecutionEntry& entry, const StateEntry& state, Save what,
                              Moment now);

// The highest generation of the state that was decided and then given up, once `what` is saved.
int64_t AbandonedAfter(const StateEntry& state, const v1::Execution& execution, Save what);

// The entry of an execution that the journal has; see Execution::Restore(). `state_exists`: so does
// the state that it moves.
ExecutionEntry RestoredEntry(const v1::Execution& execution, const Restored& restored,
                             bool state_exists, Timestamp quiesce_timeout, ExecutionActions& out);

}  // namespace remesh::server
