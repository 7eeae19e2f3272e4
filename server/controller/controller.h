// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>
#include <string>

#include "server/controller/action.h"
#include "server/controller/answers.h"
#include "server/controller/event.h"
#include "server/controller/machines.h"
#include "server/controller/own_pause.h"

namespace remesh::server {

// Decides everything the server decides: who is attached, which states exist, what each execution
// does next. Events in, actions out; no I/O, no clock, no locks, and randomness is handed in, so
// that a seed replays a life. Not thread-safe: one strand owns it.
//
// It only dispatches. What it decides is decided by machines in an order of knowledge, each of
// which sees those before it, and none of which knows the dispatcher:
//
//   journal queue -> leadership -> membership -> states -> executions -> starts -> reconcile
//   -> watches
//
// An event goes to the machine that it is for; what others must learn of it comes back as a value,
// and the dispatcher hands it on: host_events.h for what workers say, settle.h for what they hold.
class Controller {
 public:
  // Takes up where `restored` ends, with a higher epoch. Start() comes first, once.
  Controller(ControllerOptions options, RandomBits random, Restored restored);
  Actions Start(Moment now);
  Actions Handle(Event event, Moment now);

  ControllerGauges gauges() const { return GaugesOf(machines_.view()); }
  int64_t executions_running() const { return std::ssize(machines_.executions.running()); }
  bool journal_behind() const { return machines_.leadership.behind(); }
  uint64_t epoch() const { return machines_.leadership.epoch(); }

 private:
  Actions Finish(Outbox& out);
  void OnCall(const Call& call, Moment now, Outbox& out);
  void OnPlanned(const Planned& planned, Outbox& out);
  void OnDurable(const FollowUp& follow_up, Moment now, Outbox& out);
  void OnExecutionEnded(const ExecutionEnd& end, Moment now, Outbox& out);
  void OnTick(Moment now, Outbox& out);
  void Forgive(Timestamp pause, Outbox& out);

  // Requests that change something.
  void Change(CallId call, const CreateState& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::DeleteStateRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::StartExecutionRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::CancelExecutionRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::ResolveExecutionRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::ForgetWorkerRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::ResetWorkerRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::DrainWorkerRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::UndrainWorkerRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::DiscardShardsRequest& request, Moment now, Outbox& out);
  void SetDrained(CallId call, const std::string& worker, bool drained, Outbox& out);

  Restored restored_;  // until Start()
  OwnPause pause_;
  Machines machines_;
};

}  // namespace remesh::server
