// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>
#include <string>

#include "server/controller/answers.h"
#include "server/controller/machines.h"
#include "server/controller/values/action.h"
#include "server/controller/values/event.h"
#include "server/controller/values/own_pause.h"

namespace remesh::server {

// Makes every decision of the server: who is attached, which states exist, what each execution does
// next. Takes events and returns actions; has no I/O, clock or locks, and gets its randomness from
// outside, so that a seed replays a life. Not thread-safe: one strand owns it.
//
// This class only dispatches. Machines make the decisions; they are ordered by what they may know.
// Each sees those before it, and none knows the dispatcher:
//
//   journal queue -> leadership -> membership -> states -> executions -> starts -> reconcile
//   -> watches
//
// The dispatcher gives an event to the machine that it is for. What other machines must learn of
// the event comes back as a value, which the dispatcher hands on: host_events.h does this for
// messages of workers, settle.h for what workers hold.
class Controller {
 public:
  // Continues from `restored`, with a higher epoch. Call Start() once, first.
  Controller(ControllerOptions options, RandomBits random, Restored restored);
  Actions Start(Moment now);
  Actions Handle(Event event, Moment now);

  ControllerGauges gauges() const { return GaugesOf(machines_.view()); }
  int64_t executions_running() const { return std::ssize(machines_.executions.running()); }
  bool journal_behind() const { return machines_.leadership.behind(); }
  uint64_t epoch() const { return machines_.leadership.epoch(); }
  // How often a host was looked up so far: see WorkerRegistry::finds().
  int64_t host_finds() const { return machines_.membership.workers().finds(); }

 private:
  Actions Finish(Outbox& out);
  void OnCall(Call& call, Moment now, Outbox& out);
  void OnPlanned(const Planned& planned, Moment now, Outbox& out);
  void OnDurable(const FollowUp& follow_up, Moment now, Outbox& out);
  void OnExecutionEnded(const ExecutionEnd& end, Moment now, Outbox& out);
  void OnTick(Moment now, Outbox& out);
  void ExtendDeadlines(Timestamp pause, Outbox& out);

  // Requests that change something.
  void Change(CallId call, const CreateState& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::UpdateStateRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::DeleteStateRequest& request, Moment now, Outbox& out);
  void Change(CallId call, v1::StartExecutionRequest&& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::CancelExecutionRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::ResolveExecutionRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::ForgetWorkerRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::ResetWorkerRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::DrainWorkerRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::UndrainWorkerRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const v1::DiscardShardsRequest& request, Moment now, Outbox& out);
  void Change(CallId call, const SaveWorlds& request, Moment now, Outbox& out);
  void SetDrained(CallId call, const std::string& worker, bool drained, Outbox& out);

  Restored restored_;  // until Start()
  OwnPause pause_;
  Machines machines_;
};

}  // namespace remesh::server
