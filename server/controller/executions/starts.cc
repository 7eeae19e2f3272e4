// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/starts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/executions/may_move.h"
#include "server/controller/executions/new_execution.h"
#include "server/controller/executions/start_request.h"
#include "server/controller/states/replicas.h"
#include "server/controller/values/digest.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

constexpr int kPlanningsMax = 3;  // of one start, while more and more hosts are lost

// Adds the devices on which the hosts hold shards of the state.
void AddLost(const StateEntry& state, const std::set<std::string>& hosts,
             v1::PlanOptions& options) {
  const std::set<int64_t> known(options.lost_device_ids().begin(), options.lost_device_ids().end());
  for (const int64_t id : DevicesOf(*state.placed, hosts)) {
    if (!known.contains(id)) options.add_lost_device_ids(id);
  }
}

absl::Status KeepsLosing(const StateEntry& state, const WorkerRegistry& workers) {
  const std::string lost = absl::StrJoin(LostHostsOf(state, workers), ", ");
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat(state.name(), " lost more hosts while each of ", kPlanningsMax,
                   " plans was made: now ", lost, " are lost; ask again"),
      {.reason = "STATE_NOT_READY", .metadata = {{"state", state.name()}, {"lost_hosts", lost}}});
}

}  // namespace

Starts::Starts(const ControllerOptions& options, const RandomBits& random,
               const JournalQueue& journal, const Leadership& leadership,
               const Membership& membership, const States& states, const Executions& executions)
    : options_(options),
      random_(random),
      journal_(journal),
      leadership_(leadership),
      membership_(membership),
      states_(states),
      executions_(executions) {}

// Joins a repeated request_id to the execution that it started, or to the planning that it waits
// for.
absl::StatusOr<bool> Starts::Join(CallId call, const v1::StartExecutionRequest& request,
                                  Outbox& out) {
  if (request.request_id().empty() || request.validate_only()) return false;
  const StateEntry* state = states_.registry().Find(request.state());
  if (state == nullptr) return false;
  const ExecutionEntry* known =
      executions_.FindByRequest(request.state(), state->uid(), request.request_id());
  if (known != nullptr) return JoinExecution(call, request, *known, out);
  for (auto& [id, start] : planning_) {
    const v1::StartExecutionRequest& earlier = *start.request;
    if (earlier.validate_only() || earlier.state() != request.state() ||
        earlier.request_id() != request.request_id()) {
      continue;
    }
    if (Digest(earlier) != Digest(request)) return RequestIdReused(request.request_id());
    start.calls.push_back(call);
    return true;
  }
  return false;
}

absl::StatusOr<bool> Starts::JoinExecution(CallId call, const v1::StartExecutionRequest& request,
                                           const ExecutionEntry& entry, Outbox& out) {
  const v1::Execution& execution = entry.execution.resource();
  const bool same = entry.request_digest.empty()
                        ? execution.source_generation() == request.expected_generation()
                        : entry.request_digest == Digest(request);
  if (!same) return RequestIdReused(request.request_id());
  if (const auto launched = launched_.find(execution.name()); launched != launched_.end()) {
    launched->second.push_back(call);
  } else {
    out.Reply(call, execution);
  }
  return true;
}

absl::StatusOr<const StateEntry*> Starts::CheckStart(
    const v1::StartExecutionRequest& request) const {
  ASSIGN_OR_RETURN(const StateEntry* state,
                   FindState("state", request.state(), states_.registry()));
  RETURN_IF_ERROR(journal_.CheckRoom());
  RETURN_IF_ERROR(CheckFree(*state, reserves(state->name()), request.expected_generation()));
  if (request.has_targets()) RETURN_IF_ERROR(CheckKept(request, *state, membership_));
  if (request.lose_absent_hosts()) RETURN_IF_ERROR(CheckCanLose(*state, membership_.workers()));
  // Which hosts a loss of devices spares is known only when the move is planned.
  const bool may_spare = !request.options().lost_device_ids().empty() || !request.plan().empty() ||
                         request.lose_absent_hosts();
  if (!may_spare) RETURN_IF_ERROR(CheckReady(*state, {}, membership_.workers()));
  return state;
}

void Starts::Start(CallId call, v1::StartExecutionRequest request, Moment now, Outbox& out) {
  if (absl::Status bad = CheckStartRequest(request); !bad.ok()) return out.Reply(call, bad);
  const absl::StatusOr<bool> joined = Join(call, request, out);
  if (!joined.ok()) return out.Reply(call, joined.status());
  if (*joined) return;
  if (draining_ && !request.validate_only()) return out.Reply(call, ServerStops());
  const absl::StatusOr<const StateEntry*> state = CheckStart(request);
  if (!state.ok()) return out.Reply(call, state.status());
  if (!request.validate_only()) reserved_.insert(request.state());
  const auto asked = std::make_shared<const v1::StartExecutionRequest>(std::move(request));
  Plan({.calls = {call}, .request = asked, .asked = now}, **state, out);
}

// Asks for a plan that reckons with the hosts that are lost now.
void Starts::Plan(PendingStart start, const StateEntry& state, Outbox& out) {
  const v1::StartExecutionRequest& request = *start.request;
  StartPlanning planning{.id = next_planning_++,
                         .source = state.placed,
                         .targets = nullptr,
                         .plan = request.plan(),
                         .options = request.options(),
                         .keep = !request.validate_only(),
                         .state = request.state(),
                         .question = request.validate_only() ? start.calls.front() : 0};
  if (request.has_targets()) planning.targets = {start.request, &request.targets()};
  if (request.lose_absent_hosts()) {
    AddLost(state, LostHostsOf(state, membership_.workers()), planning.options);
  }
  ++start.plannings;
  planning_[planning.id] = std::move(start);
  out.Add(std::move(planning));
}

// Whether hosts that the request gives up have been lost since the plan was asked for. A host that
// came back since stays lost to this move.
bool Starts::LostMore(const PendingStart& start, const PlannedExecution& move) const {
  if (!start.request->lose_absent_hosts() || !CheckMayStart(*start.request).ok()) return false;
  const StateEntry* state = states_.registry().Find(start.request->state());
  if (state == nullptr ||
      !CheckFree(*state, reserves(state->name()), start.request->expected_generation()).ok()) {
    return false;
  }
  const std::set<std::string> lost = LostHostsOf(*state, membership_.workers());
  return CheckCanLose(*state, membership_.workers()).ok() &&
         !std::includes(move.spared_hosts.begin(), move.spared_hosts.end(), lost.begin(),
                        lost.end());
}

// A host that went away while the plan was made needs another plan.
void Starts::PlanAgain(PendingStart start, Outbox& out) {
  const StateEntry& state = *states_.registry().Find(start.request->state());
  if (start.plannings == kPlanningsMax) {
    return out.Reply(start.calls, KeepsLosing(state, membership_.workers()));
  }
  if (!start.request->validate_only()) reserved_.insert(state.name());
  Plan(std::move(start), state, out);
}

absl::Status Starts::CheckMayStart(const v1::StartExecutionRequest& request) const {
  if (draining_ && !request.validate_only()) return ServerStops();
  // The next world may have formed while the move was planned.
  RETURN_IF_ERROR(CheckFenceOf(request, request.state(), options_.is_present));
  return leadership_.CheckMayChange();
}

absl::Status Starts::CheckMove(const PendingStart& start, const PlannedExecution& move) const {
  RETURN_IF_ERROR(CheckMayStart(*start.request));
  ASSIGN_OR_RETURN(const StateEntry* state,
                   FindState("state", start.request->state(), states_.registry()));
  RETURN_IF_ERROR(CheckFree(*state, reserves(state->name()), start.request->expected_generation()));
  if (start.request->has_targets()) {
    RETURN_IF_ERROR(CheckKept(*start.request, *state, membership_));
  }
  RETURN_IF_ERROR(CheckReady(*state, move.spared_hosts, membership_.workers()));
  if (move.moves_nothing) return absl::OkStatus();
  RETURN_IF_ERROR(states_.CheckMove(*state, *move.target));
  return CheckHosts(*state, move, membership_, options_.encrypts_data);
}

std::optional<Launch> Starts::OnPlanned(const Planned& planned, Moment now, Outbox& out) {
  auto node = planning_.extract(planned.id);
  if (node.empty()) return std::nullopt;
  PendingStart& start = node.mapped();
  const bool only_asks = start.request->validate_only();
  if (!only_asks) reserved_.erase(start.request->state());
  if (!planned.move.ok()) {
    out.Reply(start.calls, planned.move.status());
    return std::nullopt;
  }
  const PlannedExecution& move = *planned.move;
  const absl::Status status = CheckMove(start, move);
  if (status.ok() && !only_asks) return MakeLaunch(start, move, now, out);
  if (!only_asks && !move.plan.empty()) out.Add(ReleasePlan{.plan = move.plan});
  if (LostMore(start, move)) {
    PlanAgain(std::move(start), out);
  } else if (!status.ok()) {
    out.Reply(start.calls, status);
  } else {
    const StateEntry& state = *states_.registry().Find(start.request->state());
    out.Reply(start.calls, Preview(*start.request, move, state.declared.abandoned_generation()));
  }
  return std::nullopt;
}

std::string Starts::NewName(const std::string& state) const {
  return absl::StrFormat("jobs/%s/executions/%016x", *ParseStateName("state", state), random_());
}

Launch Starts::MakeLaunch(const PendingStart& start, const PlannedExecution& move, Moment now,
                          Outbox& out) {
  const StateEntry& state = *states_.registry().Find(start.request->state());
  const std::string name = NewName(state.name());
  ExecutionEntry entry =
      MakeExecution({.request = *start.request, .asked = start.asked, .move = move, .state = state},
                    name, options_, now);
  const v1::Execution& resource = entry.execution.resource();
  Reliance reliance{.hosts = {}, .records = {}, .then = ExecutionStored{.name = name}};
  for (const Participant& host : entry.execution.spec().participants) {
    reliance.hosts.insert(host.host);
  }
  reliance.records.push_back(ExecutionRecord(resource));
  if (!resource.request_id().empty()) {
    reliance.records.push_back(StartRequestRecord(name, entry.request_digest));
  }
  launched_[name] = start.calls;
  if (move.moves_nothing) {
    if (!move.plan.empty()) out.Add(ReleasePlan{.plan = move.plan});
    return {.entry = std::move(entry), .reliance = std::move(reliance)};
  }
  out.Touch(state.name());
  out.Note(absl::StrCat("started ", name, ": ", state.name(), " to generation ",
                        resource.target_generation()));
  return {.entry = std::move(entry), .reliance = std::move(reliance)};
}

void Starts::OnStored(const std::string& execution, Outbox& out) {
  const auto launched = launched_.extract(execution);
  out.Reply(launched.mapped(), executions_.Find(execution)->execution.resource());
}

void Starts::ExtendDeadlines(Timestamp pause) {
  for (auto& [id, start] : planning_) start.asked.steady += pause;
}

}  // namespace remesh::server
