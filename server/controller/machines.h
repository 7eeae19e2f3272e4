// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/controller/controller_view.h"
#include "server/controller/executions/executions.h"
#include "server/controller/executions/starts.h"
#include "server/controller/leadership/journal_queue.h"
#include "server/controller/leadership/leadership.h"
#include "server/controller/membership/commands.h"
#include "server/controller/membership/membership.h"
#include "server/controller/membership/new_streams.h"
#include "server/controller/membership/parked_streams.h"
#include "server/controller/reconcile/owed.h"
#include "server/controller/states/states.h"
#include "server/controller/values/controller_options.h"
#include "server/controller/watches/watches.h"

namespace remesh::server {

// The machines of the controller, ordered by what they may know: each has read access to those
// before it. Only the dispatcher changes several of them for one event: controller.h, host_events.h
// and settle.h.
struct Machines {
  Machines(ControllerOptions options, RandomBits random, const Restored& restored);
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  ControllerView view() const;

  ControllerOptions options;
  const RandomBits random;
  JournalQueue journal;
  Leadership leadership;
  NewStreams new_streams;
  ParkedStreams parked;
  Membership membership;
  Commands commands;
  States states;
  Executions executions;
  Starts starts;
  Owed owed;
  Watches watches;
};

}  // namespace remesh::server
