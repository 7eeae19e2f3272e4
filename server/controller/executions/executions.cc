// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/executions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/executions/attempt_peers.h"
#include "server/controller/executions/attempt_reports.h"
#include "server/controller/executions/execution_end.h"
#include "server/controller/executions/execution_records.h"
#include "server/controller/executions/resolve_execution.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

// In a heartbeat; what comes after these is ignored. A host has at most as many devices, and each
// serves one attempt.
constexpr int kReportedAttemptsMax = 4096;

bool Ended(v1::Execution::Phase phase) {
  return phase == v1::Execution::SUCCEEDED || phase == v1::Execution::FAILED ||
         phase == v1::Execution::CANCELLED;
}

absl::Status NotQuiesced(const std::string& host) {
  return MakeError(absl::StatusCode::kUnavailable,
                   absl::StrCat("host ", host, " did not quiesce in time"),
                   {.reason = "NOT_QUIESCED", .metadata = {{"host", host}}});
}

}  // namespace

Executions::Executions(const ControllerOptions& options, const RandomBits& random,
                       const Membership& membership, const States& states, const Commands& commands)
    : options_(options),
      membership_(membership),
      states_(states),
      commands_(commands),
      connections_(options, random, membership.workers(), commands) {}

std::vector<std::pair<std::string, std::string>> Executions::Restore(const Restored& restored,
                                                                     Moment now, Outbox& out) {
  std::vector<std::pair<std::string, std::string>> running;
  for (const v1::Execution& execution : restored.executions) {
    const std::string& name = execution.name();
    const bool exists = states_.registry().Find(execution.state()) != nullptr;
    ExecutionActions actions;
    Add(RestoredEntry(execution, restored, exists, options_.quiesce_timeout, actions));
    if (Ended(execution.phase()) || !exists) {
      running_.erase(name);
      continue;
    }
    running.emplace_back(name, execution.state());
    out.Note(absl::StrCat("found ", name, " in the journal, ",
                          v1::Execution::Phase_Name(execution.phase())));
    Apply(name, std::move(actions), now, out);
  }
  return running;
}

const ExecutionEntry* Executions::Find(const std::string& name) const {
  return entries_.Find(name);
}

const ExecutionEntry* Executions::FindByRequest(const std::string& state,
                                                const std::string& state_uid,
                                                const std::string& request_id) const {
  return entries_.FindByRequest(state, state_uid, request_id);
}

void Executions::Add(ExecutionEntry entry) {
  running_.insert(entry.execution.resource().name());
  entries_.Add(std::move(entry));
}

void Executions::OnStored(const std::string& name, Moment now, Outbox& out) {
  const ExecutionEntry& entry = entries_.at(name);
  if (entry.execution.ended()) return OnEndStored(entry.execution.resource(), now, out);
  if (entry.execution.step() != Execution::Step::kQueued) return;  // failed in the meantime
  ledger_.Ask(name, ClaimOf(entry.devices, membership_.workers()));
  StartAdmitted(now, out);
}

// The execution had nothing to do: its first record was its last.
void Executions::OnEndStored(const v1::Execution& resource, Moment now, Outbox& out) {
  running_.erase(resource.name());
  out.Touch(resource.name());
  out.Add(FiguresOf(resource));
  out.Note(absl::StrCat(resource.name(), " ended SUCCEEDED: ", resource.state(),
                        " is where it was to move to"));
  Proceed(now, out);
}

void Executions::Cancel(CallId call, const std::string& name, Moment now, Outbox& out) {
  const absl::Status found = FindExecution(*this, name).status();
  if (!found.ok()) return out.Reply(call, found);
  Execution& execution = entries_.at(name).execution;
  ExecutionActions actions;
  if (absl::Status late = execution.Cancel(now, actions); !late.ok()) return out.Reply(call, late);
  Apply(name, std::move(actions), now, out);
  out.Reply(call, execution.resource());
}

void Executions::Stop(Execution::Step last, const absl::Status& why, Moment now, Outbox& out) {
  for (const std::string& name : std::set<std::string>(running_)) {
    Execution& execution = entries_.at(name).execution;
    if (execution.step() > last) continue;
    ExecutionActions actions;
    execution.Stop(why, now, actions);
    Apply(name, std::move(actions), now, out);
  }
}

absl::Status ServerStops() {
  return MakeError(absl::StatusCode::kUnavailable,
                   "the server stops; ask again when it is back, the source is as it was",
                   {.reason = "SERVER_STOPS", .metadata = {}});
}

void Executions::Resolve(CallId call, const v1::ResolveExecutionRequest& request, Moment now,
                         Outbox& out) {
  const absl::StatusOr<const ExecutionEntry*> entry = FindExecution(*this, request.name());
  const absl::Status status =
      entry.ok() ? CheckResolve(request, **entry, states_.registry(), membership_.workers())
                 : entry.status();
  if (!status.ok()) return out.Reply(call, status);
  entries_.at(request.name()).resolved_by.push_back(call);
  GiveUp(request.name(), SourceIsKept(), {}, now, out);
}

void Executions::GiveUp(const std::string& name, const absl::Status& why, std::vector<Record> with,
                        Moment now, Outbox& out) {
  entries_.at(name).execution.GiveUp(why);
  out.Touch(name);
  Persist(name, Save::kFailure, std::move(with), now, out);
}

void Executions::OnMessage(const std::string& host, const v1::AttachRequest& message, Moment now,
                           Outbox& out) {
  const v1::AttemptId& attempt = AttemptOf(message);
  if (entries_.Find(attempt.execution()) == nullptr) return;
  ExecutionEntry& entry = entries_.at(attempt.execution());
  if (entry.execution.spec().attempt.attempt() != attempt.attempt()) return;
  if (message.has_committed() && !HasCommitted(membership_.workers(), host, entry)) {
    return DoubtCommitted(host, entry, now, out);
  }
  if (message.has_committed()) {
    connections_.OnCommitted(attempt.execution(), host, message.committed().communicators(), now);
  }
  ExecutionActions actions;
  TakeReport(host, message, states_.registry(), membership_.workers(), entry, now, actions);
  Apply(attempt.execution(), std::move(actions), now, out);
}

void Executions::OnHeartbeat(const std::string& host, const v1::Heartbeat& beat, Moment now) {
  const int count = std::min(beat.attempts_size(), kReportedAttemptsMax);
  for (int i = 0; i < count; ++i) {
    const v1::AttemptSlices& reported = beat.attempts(i);
    if (!running_.contains(reported.attempt().execution())) continue;
    Execution& execution = entries_.at(reported.attempt().execution()).execution;
    if (execution.spec().attempt.attempt() != reported.attempt().attempt()) continue;
    execution.OnSlices(host, reported.slices(), now);
  }
}

void Executions::OnHostAway(const HostAway& away, Moment now, Outbox& out) {
  connections_.OnHostAway(away.host, out);
  for (const std::string& name : running_) {
    Execution& execution = entries_.at(name).execution;
    if (!execution.has_participant(away.host)) continue;
    ExecutionActions actions;
    execution.OnHostAway(away.host, away.why, now, actions);
    Apply(name, std::move(actions), now, out);
  }
}

void Executions::OnHostReturned(const std::string& host, Moment now, Outbox& out) {
  for (auto& [name, entry] : entries_.by_name()) {
    // Nothing follows from a success, and there may be many while all hosts attach.
    const bool succeeded = entry.execution.resource().phase() == v1::Execution::SUCCEEDED;
    if (entry.execution.ended() && succeeded) continue;
    const bool holds_target = HoldsTarget(membership_.workers(), host, entry.execution.resource());
    ExecutionActions actions;
    entry.execution.OnHostReturned(host, holds_target, actions);
    if (!actions.empty()) Apply(name, std::move(actions), now, out);
  }
}

std::vector<HostAway> Executions::OnTick(const std::string& name, Moment now, Outbox& out) {
  ExecutionActions actions;
  Execution& execution = entries_.at(name).execution;
  if (execution.Stalls(now)) {
    for (const Participant& participant : execution.spec().participants) {
      const WorkerEntry* worker = membership_.workers().Find(participant.host);
      if (worker != nullptr) execution.OnMoved(worker->moved);
    }
  }
  execution.OnTick(now, actions);
  if (actions.empty()) return {};
  return Apply(name, std::move(actions), now, out);
}

void Executions::ExtendDeadlines(Timestamp pause) {
  for (const std::string& name : running_) entries_.at(name).execution.ExtendDeadlines(pause);
}

std::vector<HostAway> Executions::Apply(const std::string& name, ExecutionActions actions,
                                        Moment now, Outbox& out) {
  std::vector<HostAway> given_up;
  out.Touch(name);
  for (ExecutionAction& action : actions) {
    if (SendCommand* send = std::get_if<SendCommand>(&action)) {
      commands_.Send(send->host, std::move(send->message), out);
    } else if (SendPrepare* prepare = std::get_if<SendPrepare>(&action)) {
      const size_t bytes = PrepareBytes(*prepare->preparation, prepare->participant);
      const auto make = [preparation = std::move(prepare->preparation),
                         participant = prepare->participant] {
        return MakePrepare(*preparation, participant);
      };
      commands_.SendLater(prepare->host, bytes, make, out);
    } else if (const Save* save = std::get_if<Save>(&action)) {
      Persist(name, *save, {}, now, out);
    } else {
      const std::string& host = std::get<GiveUpOn>(action).host;
      given_up.push_back({.host = host, .why = NotQuiesced(host)});
    }
  }
  return given_up;
}

void Executions::Persist(const std::string& name, Save what, std::vector<Record> with, Moment now,
                         Outbox& out) const {
  const ExecutionEntry& entry = entries_.at(name);
  const StateEntry& state = *states_.registry().Find(entry.execution.resource().state());
  std::vector<Record> records = RecordsOf(entry, state, what, now);
  std::move(with.begin(), with.end(), std::back_inserter(records));
  out.Persist(std::move(records), ExecutionSaved{.name = name, .what = what});
}

std::optional<ExecutionEnd> Executions::OnSaved(const ExecutionSaved& saved, Moment now,
                                                Outbox& out) {
  if (saved.what != Save::kDecision) return End(saved.name, saved.what, now, out);
  ExecutionActions actions;
  entries_.at(saved.name).execution.OnSaved(saved.what, now, actions);
  Apply(saved.name, std::move(actions), now, out);
  // All data has moved: a host that is lost before it commits must not delay other jobs.
  ledger_.Release(saved.name);
  StartAdmitted(now, out);
  return std::nullopt;
}

ExecutionEnd Executions::End(const std::string& name, Save what, Moment now, Outbox& out) {
  ExecutionEntry& entry = entries_.at(name);
  const v1::Execution& resource = entry.execution.resource();
  const StateEntry& state = *states_.registry().Find(resource.state());
  ExecutionEnd end = EffectOf(entry, state, what);
  ExecutionActions actions;
  entry.execution.OnSaved(what, now, actions);
  Apply(name, std::move(actions), now, out);
  running_.erase(name);
  ledger_.Release(name);
  entry.target = nullptr;
  entry.devices.clear();
  entry.execution.DropTargets();
  if (entry.keeps_plan) out.Add(ReleasePlan{.plan = resource.plan()});
  for (const CallId call : std::exchange(entry.resolved_by, {})) out.Reply(call, resource);
  out.Add(FiguresOf(resource));
  out.Note(EndLine(resource));
  return end;
}

void Executions::Proceed(Moment now, Outbox& out) {
  DropOld(out);
  StartAdmitted(now, out);
}

void Executions::StartAdmitted(Moment now, Outbox& out) {
  for (const std::string& name : ledger_.Admit()) {
    Execution& execution = entries_.at(name).execution;
    if (execution.step() != Execution::Step::kQueued) continue;
    ExecutionActions actions;
    absl::StatusOr<PeerTable> peers = connections_.Connect(name, execution.spec(), now, out);
    if (peers.ok()) {
      execution.Start(*std::move(peers), actions);
    } else {
      execution.Stop(peers.status(), now, actions);
    }
    Apply(name, std::move(actions), now, out);
  }
}

void Executions::DropOld(Outbox& out) {
  for (const std::string& name : entries_.DropOld(options_.finished_executions_max, running_)) {
    out.Persist({NoExecutionRecord(name), NoStartRequestRecord(name)});
    out.Touch(name);
  }
}

absl::StatusOr<const ExecutionEntry*> FindExecution(const Executions& executions,
                                                    const std::string& name) {
  RETURN_IF_ERROR(ParseExecutionName("name", name).status());
  if (const ExecutionEntry* entry = executions.Find(name)) return entry;
  return MakeError(absl::StatusCode::kNotFound, absl::StrCat(name, " does not exist"),
                   {.reason = "NOT_FOUND", .metadata = {{"name", name}}});
}

}  // namespace remesh::server
