// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/controller/executions/executions.h"
#include "server/controller/executions/starts.h"
#include "server/controller/reconcile/owed.h"
#include "server/controller/states/states.h"

namespace remesh::server {

// Read access to everything that the controller knows, for answers and for decisions that need
// several of its machines.
struct ControllerView {
  const ControllerOptions& options;
  const JournalQueue& journal;
  const Leadership& leadership;
  const Membership& membership;
  const States& states;
  const Executions& executions;
  const Starts& starts;
  const Owed& owed;

  const WorkerRegistry& workers() const { return membership.workers(); }
};

}  // namespace remesh::server
