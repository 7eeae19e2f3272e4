// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/controller/executions/attempt_connections.h"
#include "server/controller/executions/execution.h"
#include "server/controller/executions/remembered_executions.h"
#include "server/controller/membership/commands.h"
#include "server/controller/membership/membership.h"
#include "server/controller/states/states.h"
#include "server/controller/values/controller_options.h"
#include "server/controller/values/device_ledger.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// All executions, running and ended: carries out their actions and applies what their end changes.
// Knows the hosts and the states. Not thread-safe.
class Executions {
 public:
  Executions(const ControllerOptions& options, const RandomBits& random,
             const Membership& membership, const States& states, const Commands& commands);
  // Returns the names of executions that still run, with their states.
  std::vector<std::pair<std::string, std::string>> Restore(const Restored& restored, Moment now,
                                                           Outbox& out);

  // Null when no execution has this name.
  const ExecutionEntry* Find(const std::string& name) const;
  // The execution that a StartExecution with this request_id started. A request belongs to a state
  // by its uid, not by its name.
  const ExecutionEntry* FindByRequest(const std::string& state, const std::string& state_uid,
                                      const std::string& request_id) const;
  const std::map<std::string, ExecutionEntry>& entries() const { return entries_.by_name(); }
  // Names, by a key that orders the newest first.
  const std::map<std::string, std::string>& by_age() const { return entries_.by_age(); }
  const std::set<std::string>& running() const { return running_; }

  void Add(ExecutionEntry entry);
  void OnStored(const std::string& name, Moment now, Outbox& out);
  // Returns how the execution ended, if it did; then call Proceed().
  std::optional<ExecutionEnd> OnSaved(const ExecutionSaved& saved, Moment now, Outbox& out);
  // Forgets old executions, and starts those whose turn has come.
  void Proceed(Moment now, Outbox& out);

  void Cancel(CallId call, const std::string& name, Moment now, Outbox& out);
  void Resolve(CallId call, const v1::ResolveExecutionRequest& request, Moment now, Outbox& out);
  // Fails, with `why`, every execution that is at `last` or an earlier step, all of which can still
  // fail.
  void Stop(Execution::Step last, const absl::Status& why, Moment now, Outbox& out);
  // Gives the execution up, in one transaction with the records `with`. REQUIRES: it is
  // incomplete().
  void GiveUp(const std::string& name, const absl::Status& why, std::vector<Record> with,
              Moment now, Outbox& out);

  // Notes how far the host's attempts got. Ignores those that do not run.
  void OnHeartbeat(const std::string& host, const v1::Heartbeat& beat, Moment now);
  // A host reports on an attempt.
  void OnMessage(const std::string& host, const v1::AttachRequest& message, Moment now,
                 Outbox& out);
  void OnHostAway(const HostAway& away, Moment now, Outbox& out);
  void OnHostReturned(const std::string& host, Moment now, Outbox& out);
  // Returns the hosts that did not quiesce in time; their streams must be ended.
  std::vector<HostAway> OnTick(const std::string& name, Moment now, Outbox& out);
  void ExtendDeadlines(Timestamp pause);  // the server itself stood still

 private:
  std::vector<HostAway> Apply(const std::string& name, ExecutionActions actions, Moment now,
                              Outbox& out);
  void Persist(const std::string& name, Save what, std::vector<Record> with, Moment now,
               Outbox& out) const;
  void OnEndStored(const v1::Execution& resource, Moment now, Outbox& out);
  ExecutionEnd End(const std::string& name, Save what, Moment now, Outbox& out);
  void StartAdmitted(Moment now, Outbox& out);
  void DropOld(Outbox& out);

  const ControllerOptions& options_;
  const Membership& membership_;
  const States& states_;
  const Commands& commands_;
  DeviceLedger ledger_;
  AttemptConnections connections_;
  RememberedExecutions entries_;
  std::set<std::string> running_;  // those whose end is not on disk
};

// UNAVAILABLE (SERVER_STOPS): the answer of an ending server to starts, and the error of executions
// that it fails.
absl::Status ServerStops();

// INVALID_ARGUMENT: `name` is not the name of an execution. NOT_FOUND.
absl::StatusOr<const ExecutionEntry*> FindExecution(const Executions& executions,
                                                    const std::string& name);

}  // namespace remesh::server
