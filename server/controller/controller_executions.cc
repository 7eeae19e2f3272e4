// SPDX-License-Identifier: Apache-2.0
// Executions under way: what they want done, and what their end changes.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/controller.h"
#include "server/controller/names.h"
#include "server/controller/pagination.h"
#include "server/controller/proto_time.h"

namespace remesh {
namespace {

// 16 random bytes.
std::string MakeToken(const Controller::Random& random) {
  std::string token(16, '\0');
  for (size_t half = 0; half < 2; ++half) {
    const uint64_t bits = random();
    for (size_t i = 0; i < 8; ++i) token[half * 8 + i] = static_cast<char>(bits >> (8 * i));
  }
  return token;
}

}  // namespace

std::string AgeKey(const v1::Execution& execution) {
  const uint64_t nanos = static_cast<uint64_t>(absl::ToUnixNanos(ToTime(execution.create_time())));
  return absl::StrFormat("%016x %s", ~nanos, execution.name());
}

absl::StatusOr<Controller::Move*> Controller::FindExecution(const std::string& name) {
  RETURN_IF_ERROR(ParseExecutionName("name", name).status());
  auto found = moves_.find(name);
  if (found != moves_.end()) return &found->second;
  return MakeError(absl::StatusCode::kNotFound, absl::StrCat(name, " does not exist"),
                   {.reason = "NOT_FOUND", .metadata = {{"name", name}}});
}

absl::StatusOr<Reply> Controller::Answer(const v1::GetExecutionRequest& request) {
  ASSIGN_OR_RETURN(const Move* move, FindExecution(request.name()));
  return move->execution.resource();
}

absl::StatusOr<Reply> Controller::Answer(const v1::ListExecutionsRequest& request) const {
  ASSIGN_OR_RETURN(const std::string prefix, ParseParent("parent", request.parent()));
  const std::string scope = absl::StrCat("executions of ", prefix);
  ASSIGN_OR_RETURN(const PageStart start,
                   ParsePage(request.page_size(), request.page_token(), scope));
  v1::ListExecutionsResponse response;
  response.set_next_page_token(FillPage(
      by_age_, start, scope,
      [&](const std::string& name) { return name.compare(0, prefix.size(), prefix) == 0; },
      [&](const std::string& name) { return moves_.at(name).execution.resource(); },
      options_.page_bytes_max, *response.mutable_executions()));
  return response;
}

absl::StatusOr<Reply> Controller::Answer(const v1::CancelExecutionRequest& request) {
  ASSIGN_OR_RETURN(Move* const move, FindExecution(request.name()));
  ExecutionActions actions;
  RETURN_IF_ERROR(move->execution.Cancel(now_, actions));
  Apply(request.name(), std::move(actions));
  return move->execution.resource();
}

absl::StatusOr<Reply> Controller::Answer(const v1::ResolveExecutionRequest& request) {
  ASSIGN_OR_RETURN(Move* const move, FindExecution(request.name()));
  const v1::Execution& resource = move->execution.resource();
  if (request.resolution() != v1::ResolveExecutionRequest::KEEP_SOURCE) {
    return InvalidField("resolution", absl::StrCat(request.resolution()), "must be KEEP_SOURCE");
  }
  const auto refuse = [&](const char* reason, std::string_view what) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat(resource.name(), std::string(what)),
                     {.reason = reason, .metadata = {{"execution", resource.name()}}});
  };
  if (move->execution.step() != Execution::Step::kCommitting) {
    return refuse("NOT_COMMITTING", " is not committing");
  }
  const StateEntry& state = *states_.Find(resource.state());
  if (!HeldEverywhere(state, resource.source_generation(), workers_)) {
    return refuse("SOURCE_NOT_WHOLE",
                  absl::StrCat(": not every host of generation ", resource.source_generation(),
                               " is attached with its shards of it"));
  }
  ExecutionActions actions;
  move->execution.GiveUp(
      MakeError(absl::StatusCode::kAborted, "resolved: the source generation is kept",
                {.reason = "RESOLVED_KEEP_SOURCE", .metadata = {}}),
      actions);
  Apply(request.name(), std::move(actions));
  return move->execution.resource();
}

void Controller::AdmitMoves() {
  for (const std::string& name : ledger_.Admit()) {
    Execution& execution = moves_.at(name).execution;
    if (execution.step() != Execution::Step::kQueued) continue;
    std::vector<v1::PeerEntry> peers;
    for (const Participant& participant : execution.spec().participants) {
      const v1::Register& registration = workers_.Find(participant.host)->registration;
      v1::PeerEntry& peer = peers.emplace_back();
      peer.set_host(participant.host);
      peer.set_incarnation(registration.incarnation());
      *peer.mutable_data_addresses() = registration.data_addresses();
      peer.set_token(MakeToken(random_));
      *peer.mutable_device_ids() = {participant.device_ids.begin(), participant.device_ids.end()};
    }
    ExecutionActions actions;
    execution.Start(peers, actions);
    Apply(name, std::move(actions));
  }
}

void Controller::Apply(const std::string& name, ExecutionActions actions) {
  Touch(name);
  for (ExecutionAction& action : actions) {
    if (Tell* tell = std::get_if<Tell>(&action)) {
      Send(tell->host, std::move(tell->message));
    } else if (const Save* save = std::get_if<Save>(&action)) {
      SaveExecution(name, *save);
    } else if (const WorkerEntry* worker = workers_.Find(std::get<GiveUpOn>(action).host);
               worker != nullptr && worker->alive()) {
      const std::string host = std::get<GiveUpOn>(action).host;
      DropStream(worker->stream,
                 MakeError(absl::StatusCode::kUnavailable,
                           absl::StrCat("host ", host, " did not quiesce in time"),
                           {.reason = "NOT_QUIESCED", .metadata = {{"host", host}}}));
    }
  }
}

namespace {

// The highest generation of the state that was decided and then given up, after `what` is saved.
int64_t Abandoned(const StateEntry& state, const v1::Execution& execution, Save what) {
  const bool given_up = what == Save::kFailure && execution.phase() == v1::Execution::COMMITTING;
  return given_up ? execution.target_generation() : state.declared.abandoned_generation();
}

}  // namespace

void Controller::SaveExecution(const std::string& name, Save what) {
  const Move& move = moves_.at(name);
  const v1::Execution saved = move.execution.ToSave(what, now_);
  std::vector<Record> records = {ExecutionRecord(saved)};
  const StateEntry& state = *states_.Find(saved.state());
  if (const int64_t abandoned = Abandoned(state, move.execution.resource(), what);
      abandoned != state.declared.abandoned_generation()) {
    v1::State kept = state.declared;
    kept.set_abandoned_generation(abandoned);
    *kept.mutable_spec() = state.placed->spec;
    records.push_back(StateRecord(kept));
    records.push_back(NoNextStateRecord(saved.state()));
  }
  if (what != Save::kFailure) {
    v1::State next = state.declared;
    next.set_generation(saved.target_generation());
    *next.mutable_spec() = move.target->spec;
    records.push_back(what == Save::kDecision ? NextStateRecord(next) : StateRecord(next));
    if (what == Save::kSuccess) records.push_back(NoNextStateRecord(saved.state()));
  }
  Persist(std::move(records), [this, name, what] {
    if (what != Save::kDecision) return EndMove(name, what);
    ExecutionActions actions;
    moves_.at(name).execution.OnSaved(what, now_, actions);
    Apply(name, std::move(actions));
    // All is moved: who is lost before it commits must not hold up other jobs.
    ledger_.Release(name);
    AdmitMoves();
  });
}

void Controller::EndMove(const std::string& name, Save what) {
  Move& move = moves_.at(name);
  ExecutionActions actions;
  const v1::Execution& resource = move.execution.resource();
  StateEntry& state = *states_.Find(resource.state());
  const int64_t abandoned = Abandoned(state, resource, what);
  move.execution.OnSaved(what, now_, actions);
  if (what == Save::kSuccess) AdoptTarget(state, move);
  state.execution.clear();
  state.declared.set_abandoned_generation(abandoned);
  Apply(name, std::move(actions));
  SettleState(state.name());  // the generation before, or what was written in vain
  Touch(state.name());

  running_.erase(name);
  ledger_.Release(name);
  move.target = nullptr;
  move.devices.clear();
  move.execution.DropTargets();
  if (move.keeps_plan) out_.push_back(ReleasePlan{.plan = resource.plan()});
  ExecutionEnded ended{.phase = resource.phase(),
                       .seconds = absl::ToDoubleSeconds(ToTime(resource.end_time()) -
                                                        ToTime(resource.create_time()))};
  for (const v1::HostProgress& host : resource.hosts()) {
    ended.bytes_moved += host.received_bytes();
    ended.copied_bytes += host.copied_bytes();
  }
  out_.push_back(ended);
  AddNote(absl::StrCat(name, " ended ", v1::Execution::Phase_Name(resource.phase()),
                       resource.has_error() ? ": " : "", resource.error().message()));
  DropOldExecutions();
  AdmitMoves();
}

// Who holds what of it is what the workers themselves said.
void Controller::AdoptTarget(StateEntry& state, const Move& move) {
  state.declared.set_generation(move.execution.resource().target_generation());
  state.placed = move.target;
}

void Controller::DropOldExecutions() {
  for (auto oldest = by_age_.end();
       moves_.size() > options_.finished_executions_max && oldest != by_age_.begin();) {
    --oldest;
    const std::string name = oldest->second;
    if (running_.contains(name)) continue;
    // Its record is what lets a host that is away free what it holds.
    const bool room = moves_.size() <= 2 * options_.finished_executions_max;
    if (room && !moves_.at(name).execution.forgettable()) continue;
    const v1::Execution& resource = moves_.at(name).execution.resource();
    request_ids_.erase(RequestKey(resource.state(), resource.state_uid(), resource.request_id()));
    moves_.erase(name);
    oldest = by_age_.erase(oldest);
    Persist({NoExecutionRecord(name), NoStartRequestRecord(name)}, [] {});
    Touch(name);
  }
}

}  // namespace remesh
