// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "remesh/v1/worker.pb.h"
#include "server/controller/executions/execution.h"
#include "server/controller/executions/remembered_executions.h"
#include "server/controller/states/state_registry.h"
#include "server/controller/values/event.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// What the workers of an execution report on its attempt, and what that means for it.

// The attempt that the message is about.
const v1::AttemptId& AttemptOf(const v1::AttachRequest& message);

// Whether the host has its shards of the target generation: verified, readable, or unsealed by a
// trainer since. REQUIRES: it has registered.
bool HoldsTarget(const WorkerRegistry& workers, const std::string& host,
                 const v1::Execution& execution);

// Whether a host that says so has committed: one that receives shards must hold them.
bool HasCommitted(const WorkerRegistry& workers, const std::string& host,
                  const ExecutionEntry& entry);

// Hands the report to the execution. REQUIRES: it is about the execution's attempt and, if it says
// that the host has committed, HasCommitted().
void TakeReport(const std::string& host, const v1::AttachRequest& message,
                const StateRegistry& states, const WorkerRegistry& workers, ExecutionEntry& entry,
                Moment now, ExecutionActions& actions);

// A host says that it committed, without holding what it receives: it is asked to commit again.
void DoubtCommitted(const std::string& host, ExecutionEntry& entry, Moment now, Outbox& out);

}  // namespace remesh::server
