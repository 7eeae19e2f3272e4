// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/executions.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/executions/attempt_peers.h"
#include "server/controller/membership/data_addresses.h"
#include "server/controller/states/write_once.h"
#include "server/controller/values/names.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

using google::protobuf::util::TimeUtil;

// In a heartbeat; what comes after these is ignored. A host has at most as many devices, and each
// serves one attempt.
constexpr int kReportedAttemptsMax = 4096;

bool Ended(v1::Execution::Phase phase) {
  return phase == v1::Execution::SUCCEEDED || phase == v1::Execution::FAILED ||
         phase == v1::Execution::CANCELLED;
}

// The participants of a restored execution, as far as Commit, Abort and Retire need them.
std::vector<Participant> ParticipantsOf(const v1::Execution& execution,
                                        const std::shared_ptr<const PlacedState>& target) {
  std::vector<Participant> participants;
  for (const v1::HostProgress& progress : execution.hosts()) {
    Participant& participant = participants.emplace_back();
    participant.host = progress.host();
    if (target != nullptr && target->hosts.contains(progress.host())) participant.target = target;
  }
  return participants;
}

double SecondsBetween(const google::protobuf::Timestamp& begin,
                      const google::protobuf::Timestamp& end) {
  return static_cast<double>(TimeUtil::DurationToNanoseconds(end - begin)) / 1e9;
}

// Adds what the plan predicted and what the transfers took, which only a move that succeeded tells.
void AddPrediction(const v1::Execution& resource, ExecutionEnded& ended) {
  const double predicted = resource.summary().predicted_seconds();
  const bool told = resource.phase() == v1::Execution::SUCCEEDED && predicted > 0 &&
                    resource.has_transfer_start_time() && resource.has_transfer_end_time();
  if (!told) return;
  ended.predicted_seconds = predicted;
  ended.transfer_seconds =
      SecondsBetween(resource.transfer_start_time(), resource.transfer_end_time());
}

// The figures of an ended execution, for metrics.
ExecutionEnded FiguresOf(const v1::Execution& resource) {
  ExecutionEnded ended{.phase = resource.phase(),
                       .seconds = SecondsBetween(resource.create_time(), resource.end_time())};
  AddPrediction(resource, ended);
  for (const v1::HostProgress& host : resource.hosts()) {
    ended.bytes_moved += static_cast<double>(host.received_bytes());
    ended.copied_bytes += static_cast<double>(host.copied_bytes());
  }
  return ended;
}

absl::Status NotQuiesced(const std::string& host) {
  return MakeError(absl::StatusCode::kUnavailable,
                   absl::StrCat("host ", host, " did not quiesce in time"),
                   {.reason = "NOT_QUIESCED", .metadata = {{"host", host}}});
}

// The highest generation of the state that was decided and then given up, once `what` is saved.
int64_t Abandoned(const StateEntry& state, const v1::Execution& execution, Save what) {
  const bool given_up = what == Save::kFailure && execution.phase() == v1::Execution::COMMITTING;
  return given_up ? execution.target_generation() : state.declared.abandoned_generation();
}

void SendDrops(const std::vector<Communicators::Drop>& drops, const Commands& commands,
               Outbox& out) {
  for (const Communicators::Drop& drop : drops) {
    v1::AttachResponse message;
    message.mutable_drop_communicators()->set_name(drop.name);
    commands.Send(drop.host, std::move(message), out);
  }
}

const v1::AttemptId& AttemptOf(const v1::AttachRequest& message) {
  switch (message.event_case()) {
    case v1::AttachRequest::kPrepared:
      return message.prepared().attempt();
    case v1::AttachRequest::kWindowDone:
      return message.window_done().attempt();
    case v1::AttachRequest::kVerified:
      return message.verified().attempt();
    case v1::AttachRequest::kCommitted:
      return message.committed().attempt();
    case v1::AttachRequest::kQuiesced:
      return message.quiesced().attempt();
    default:
      return message.failed().attempt();
  }
}

bool HoldsTarget(const Membership& membership, const std::string& host,
                 const v1::Execution& execution) {
  const v1::StateManifest* held = membership.workers().Find(host)->Manifest(
      execution.state(), execution.state_uid(), execution.target_generation());
  return held != nullptr && held->phase() != v1::SHARD_PHASE_PREPARED &&
         (held->execution() == execution.name() || held->execution().empty());
}

// Whether a host that says so has committed: one that receives shards must hold them.
bool HasCommitted(const Membership& membership, const std::string& host,
                  const ExecutionEntry& entry) {
  const bool receives = entry.target != nullptr && entry.target->hosts.contains(host);
  return !receives || HoldsTarget(membership, host, entry.execution.resource());
}

// Notes the write of the host's shards that the move reads, if trainers could have written them
// since the state was READY; from now on the host keeps trainers from writing. FAILED_PRECONDITION
// (WRITE_DIFFERS): it is not that of other hosts, because a trainer has written since the state was
// READY.
absl::Status NoteSource(const std::string& host, const StateEntry& state,
                        const WorkerRegistry& workers, ExecutionEntry& entry) {
  if (!state.placed->hosts.contains(host) || entry.spared_hosts.contains(host) || IsFixed(state)) {
    return absl::OkStatus();
  }
  const v1::StateManifest* held =
      workers.Find(host)->Manifest(state.name(), state.uid(), state.generation());
  if (held == nullptr) return absl::OkStatus();
  HostWrites& all = entry.source_writes;
  all[host] = held->write();
  // The others agree with each other, or the execution would have been stopped.
  const bool agrees = all.begin()->second == held->write() && all.rbegin()->second == held->write();
  if (agrees) return absl::OkStatus();
  const std::string writes = Describe(entry.source_writes);
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat(state.name(), " was written while the move began: ", writes),
      {.reason = "WRITE_DIFFERS", .metadata = {{"state", state.name()}, {"writes", writes}}});
}

void TakePrepared(const std::string& host, const StateRegistry& states,
                  const WorkerRegistry& workers, ExecutionEntry& entry, Moment now,
                  ExecutionActions& actions) {
  Execution& execution = entry.execution;
  const bool takes_part = execution.has_participant(host);
  if (!takes_part || execution.step() != Execution::Step::kPreparing) return;
  const StateEntry& state = *states.Find(execution.resource().state());
  const absl::Status source = NoteSource(host, state, workers, entry);
  if (!source.ok()) return execution.Stop(source, now, actions);
  execution.OnPrepared(host, now, actions);
}

// A host says that it committed, without holding what it receives: it is asked to commit again.
void DoubtCommitted(const std::string& host, ExecutionEntry& entry, Moment now, Outbox& out) {
  const std::string& name = entry.execution.resource().name();
  const absl::Status error = MakeError(
      absl::StatusCode::kDataLoss,
      absl::StrCat("it says that it committed ", name, " but not that it holds its shards"),
      {.reason = "COMMIT_INCOMPLETE", .metadata = {{"host", host}}});
  out.Note(absl::StrCat("host ", host, ": ", error.message()));
  entry.execution.OnCommitFailed(host, service::StatusToProto(error), now);
  out.Touch(name);
}

}  // namespace

Executions::Executions(const ControllerOptions& options, const RandomBits& random,
                       const Membership& membership, const States& states, const Commands& commands)
    : options_(options),
      random_(random),
      membership_(membership),
      states_(states),
      commands_(commands) {}

std::vector<std::pair<std::string, std::string>> Executions::Restore(const Restored& restored,
                                                                     Moment now, Outbox& out) {
  std::vector<std::pair<std::string, std::string>> running;
  for (const v1::Execution& execution : restored.executions) {
    const std::string& name = execution.name();
    const bool exists = states_.registry().Find(execution.state()) != nullptr;
    const auto next = restored.next_states.find(execution.state());
    const bool committing = execution.phase() == v1::Execution::COMMITTING && exists &&
                            next != restored.next_states.end();
    const std::shared_ptr<const PlacedState> target = committing ? next->second : nullptr;
    ExecutionSpec spec{.attempt = {},
                       .fingerprint = "",
                       .quiesce_timeout = options_.quiesce_timeout,
                       .participants = ParticipantsOf(execution, target)};
    spec.attempt.set_execution(name);
    spec.attempt.set_attempt(1);
    ExecutionActions actions;
    ExecutionEntry entry{.execution = Execution::Restore(std::move(spec), execution, actions),
                         .target = target};
    const auto digest = restored.start_digests.find(name);
    if (digest != restored.start_digests.end()) entry.request_digest = digest->second;
    Add(std::move(entry));
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

namespace {

absl::Status CheckResolve(const v1::ResolveExecutionRequest& request, const Executions& executions,
                          const StateRegistry& states, const WorkerRegistry& workers) {
  ASSIGN_OR_RETURN(const ExecutionEntry* entry, FindExecution(executions, request.name()));
  const v1::Execution& resource = entry->execution.resource();
  if (request.resolution() != v1::ResolveExecutionRequest::KEEP_SOURCE) {
    return InvalidField("resolution", absl::StrCat(request.resolution()), "must be KEEP_SOURCE");
  }
  const auto refuse = [&](const char* reason, std::string_view what) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat(resource.name(), std::string(what)),
                     {.reason = reason, .metadata = {{"execution", resource.name()}}});
  };
  if (entry->execution.step() != Execution::Step::kCommitting) {
    return refuse("NOT_COMMITTING", " is not committing");
  }
  const int64_t source = resource.source_generation();
  if (HeldEverywhere(*states.Find(resource.state()), source, workers)) return absl::OkStatus();
  return refuse("SOURCE_NOT_WHOLE", absl::StrCat(": not every host of generation ", source,
                                                 " is attached with its shards of it"));
}

}  // namespace

void Executions::Resolve(CallId call, const v1::ResolveExecutionRequest& request, Moment now,
                         Outbox& out) {
  const absl::Status status =
      CheckResolve(request, *this, states_.registry(), membership_.workers());
  if (!status.ok()) return out.Reply(call, status);
  entries_.at(request.name()).resolved_by.push_back(call);
  GiveUp(request.name(),
         MakeError(absl::StatusCode::kAborted, "resolved: the source generation is kept",
                   {.reason = "RESOLVED_KEEP_SOURCE", .metadata = {}}),
         {}, now, out);
}

void Executions::GiveUp(const std::string& name, const absl::Status& why, std::vector<Record> with,
                        Moment now, Outbox& out) {
  entries_.at(name).execution.GiveUp(why);
  out.Touch(name);
  Persist(name, Save::kFailure, std::move(with), now, out);
}

void Executions::OnMessage(const std::string& host, const v1::AttachRequest& message, Moment now,
                           Outbox& out) {
  using Event = v1::AttachRequest;
  const v1::AttemptId& attempt = AttemptOf(message);
  if (entries_.Find(attempt.execution()) == nullptr) return;
  ExecutionEntry& entry = entries_.at(attempt.execution());
  Execution& execution = entry.execution;
  if (execution.spec().attempt.attempt() != attempt.attempt()) return;
  if (message.has_committed() && !HasCommitted(membership_, host, entry)) {
    return DoubtCommitted(host, entry, now, out);
  }
  ExecutionActions actions;
  switch (message.event_case()) {
    case Event::kPrepared:
      TakePrepared(host, states_.registry(), membership_.workers(), entry, now, actions);
      break;
    case Event::kWindowDone:
      execution.OnWindowDone(host, message.window_done(), now, actions);
      break;
    case Event::kVerified:
      execution.OnVerified(host, now, actions);
      break;
    case Event::kCommitted:
      execution.OnCommitted(host, actions);
      communicators_.OnCommitted(attempt.execution(), host, message.committed().communicators(),
                                 now.steady);
      break;
    case Event::kQuiesced:
      execution.OnQuiesced(host, message.quiesced().error(), now, actions);
      break;
    case Event::kFailed:
      execution.OnAttemptFailed(host, message.failed().error(), now, actions);
      break;
    default:
      return;
  }
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
  SendDrops(communicators_.OnHostAway(away.host), commands_, out);
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
    const bool holds_target = HoldsTarget(membership_, host, entry.execution.resource());
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
  const v1::Execution saved = entry.execution.ToSave(what, now);
  std::vector<Record> records = {ExecutionRecord(saved)};
  const StateEntry& state = *states_.registry().Find(saved.state());
  if (const int64_t abandoned = Abandoned(state, entry.execution.resource(), what);
      abandoned != state.declared.abandoned_generation()) {
    v1::State kept = state.declared;
    kept.set_abandoned_generation(abandoned);
    records.push_back(StateRecord(kept, state.placed->spec));
    records.push_back(NoNextStateRecord(saved.state()));
  }
  if (what != Save::kFailure) {
    v1::State next = state.declared;
    next.set_generation(saved.target_generation());
    const v1::StateSpec& spec = entry.target->spec;
    records.push_back(what == Save::kDecision ? NextStateRecord(next, spec)
                                              : StateRecord(next, spec));
    if (what == Save::kSuccess) records.push_back(NoNextStateRecord(saved.state()));
  }
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
  ExecutionEnd end{.state = state.name(),
                   .abandoned_generation = Abandoned(state, resource, what),
                   .generation = resource.target_generation(),
                   .target = what == Save::kSuccess ? entry.target : nullptr};
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
  out.Note(absl::StrCat(name, " ended ", v1::Execution::Phase_Name(resource.phase()),
                        resource.has_error() ? ": " : "", resource.error().message()));
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
    // Encryption may have been turned on while the move was queued.
    const absl::Status encrypts =
        CheckEncrypts(options_.encrypts_data, HostsOf(execution.spec()), membership_.workers());
    if (!encrypts.ok()) {
      execution.Stop(encrypts, now, actions);
    } else {
      std::vector<v1::PeerEntry> peers =
          MakePeers(execution.spec(), membership_.workers(), random_, options_.encrypts_data);
      Communicators::Named named;
      if (Communicators::Serve(peers, ReceiversOf(execution.spec())))
        named = communicators_.Name(name, peers, now.steady, random_);
      SendDrops(named.drops, commands_, out);
      PeerTable table(std::move(peers), execution.spec().exchanges,
                      TakeShortPrepare(execution.spec(), membership_.workers()),
                      std::move(named.communicators));
      execution.Start(std::move(table), actions);
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
