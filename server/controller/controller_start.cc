// SPDX-License-Identifier: Apache-2.0
// From StartExecution to an execution in the journal.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/controller.h"
#include "server/controller/digest.h"
#include "server/controller/names.h"
#include "server/controller/proto_time.h"

namespace remesh {
namespace {

constexpr int64_t kDeadlineSecondsMax = 30 * 24 * 3600;

absl::Status DonationUnsupported() {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   "options.donate is not supported by executions yet",
                   {.reason = "DONATION_UNSUPPORTED", .metadata = {{"field", "options.donate"}}});
}

absl::Status CheckDeadline(const google::protobuf::Duration& deadline) {
  const bool in_range = deadline.seconds() >= 0 && deadline.seconds() <= kDeadlineSecondsMax &&
                        deadline.nanos() >= 0 && deadline.nanos() < 1'000'000'000;
  if (in_range) return absl::OkStatus();
  return InvalidField("deadline", absl::StrCat(deadline.seconds(), " s"), "must be 0 to 30 days");
}

absl::Status CheckStart(const v1::StartExecutionRequest& request) {
  RETURN_IF_ERROR(ParseStateName("state", request.state()).status());
  if (request.expected_generation() < 1) {
    return InvalidField("expected_generation", absl::StrCat(request.expected_generation()),
                        "must be >= 1");
  }
  if (request.how_case() == v1::StartExecutionRequest::HOW_NOT_SET) {
    return InvalidField("how", "", "must be targets or plan");
  }
  if (request.how_case() == v1::StartExecutionRequest::kPlan && request.has_options()) {
    return InvalidField("options", "set", "must be empty with a plan: the plan has its own");
  }
  if (request.request_id().size() > 256) {
    return InvalidField("request_id", request.request_id(), "must have at most 256 bytes");
  }
  if (request.options().donate()) return DonationUnsupported();
  return CheckDeadline(request.deadline());
}

absl::Status RequestIdReused(const std::string& request_id) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat("request_id: value \"", request_id, "\" was used for another request"),
      {.reason = "REQUEST_ID_REUSED",
       .metadata = {{"field", "request_id"}, {"value", request_id}}});
}

}  // namespace

std::string RequestKey(const std::string& state, const std::string& state_uid,
                       const std::string& request_id) {
  return absl::StrCat(state, "\n", state_uid, "\n", request_id);
}

absl::Status Controller::CheckFree(const StateEntry& state, int64_t expected_generation) const {
  const std::string& name = state.name();
  if (!state.execution.empty()) {
    return MakeError(
        absl::StatusCode::kAborted, absl::StrCat(name, " is being moved by ", state.execution),
        {.reason = "STATE_MOVING", .metadata = {{"state", name}, {"execution", state.execution}}});
  }
  if (state.busy()) {
    return MakeError(absl::StatusCode::kAborted, absl::StrCat(name, " is about to move"),
                     {.reason = "STATE_MOVING", .metadata = {{"state", name}}});
  }
  if (state.generation() != expected_generation) {
    const std::string expected = absl::StrCat(expected_generation),
                      found = absl::StrCat(state.generation());
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("expected_generation: value \"", expected, "\" is not ", found,
                                  ", the generation of ", name),
                     {.reason = "GENERATION_MISMATCH",
                      .metadata = {{"field", "expected_generation"},
                                   {"value", expected},
                                   {"generation", found},
                                   {"state", name}}});
  }
  return absl::OkStatus();
}

absl::Status Controller::CheckReady(const StateEntry& state,
                                    const std::set<std::string>& spared) const {
  const v1::State::Phase phase = PhaseOf(state, workers_, spared);
  if (phase == v1::State::READY) return absl::OkStatus();
  const std::string& name = state.name();
  const std::string shown = v1::State::Phase_Name(phase);
  const v1::State seen = ToProto(state, workers_);
  const std::string lost = absl::StrJoin(seen.lost_hosts(), ", ");
  const std::string newer = absl::StrJoin(seen.newer_hosts(), ", ");
  std::string why;
  if (!lost.empty()) absl::StrAppend(&why, "; away, or back without its shards: ", lost);
  if (!newer.empty()) {
    absl::StrAppend(&why, "; a newer generation than the journal knows is on ", newer,
                    ": see remeshctl workers owed");
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, absl::StrCat(name, " is ", shown, ", not READY", why),
      {.reason = "STATE_NOT_READY",
       .metadata = {
           {"state", name}, {"phase", shown}, {"lost_hosts", lost}, {"newer_hosts", newer}}});
}

// A repeated request_id: the execution that it started, or the planning that it waits for.
absl::StatusOr<bool> Controller::JoinStart(CallId call, const v1::StartExecutionRequest& request) {
  if (request.request_id().empty() || request.validate_only()) return false;
  const StateEntry* state = states_.Find(request.state());
  if (state == nullptr) return false;
  const std::string digest = Digest(request);
  const std::string key = RequestKey(request.state(), state->uid(), request.request_id());
  if (auto known = request_ids_.find(key); known != request_ids_.end()) {
    Move& move = moves_.at(known->second);
    const v1::Execution& execution = move.execution.resource();
    const bool same = move.request_digest.empty()
                          ? execution.source_generation() == request.expected_generation()
                          : move.request_digest == digest;
    if (!same) return RequestIdReused(request.request_id());
    if (move.durable) {
      Reply(call, execution);
    } else {
      move.waiting.push_back(call);
    }
    return true;
  }
  for (auto& [id, start] : starts_) {
    if (start.request.validate_only() || start.request.state() != request.state() ||
        start.request.request_id() != request.request_id()) {
      continue;
    }
    if (Digest(start.request) != digest) return RequestIdReused(request.request_id());
    start.calls.push_back(call);
    return true;
  }
  return false;
}

void Controller::StartExecution(CallId call, const v1::StartExecutionRequest& request) {
  if (absl::Status bad = CheckStart(request); !bad.ok()) return Reply(call, bad);
  const absl::StatusOr<bool> joined = JoinStart(call, request);
  if (!joined.ok()) return Reply(call, joined.status());
  if (*joined) return;
  const absl::StatusOr<StateEntry*> state = FindState("state", request.state());
  if (!state.ok()) return Reply(call, state.status());
  absl::Status status = CheckRoom();
  if (status.ok()) status = CheckFree(**state, request.expected_generation());
  // Which hosts a loss of devices spares is known once the move is planned.
  const bool may_spare = !request.options().lost_device_ids().empty() || !request.plan().empty();
  if (status.ok() && !may_spare) status = CheckReady(**state, {});
  if (!status.ok()) return Reply(call, status);
  const uint64_t id = next_planning_++;
  if (!request.validate_only()) (*state)->planning = id;
  starts_[id] = {.calls = {call}, .request = request, .asked = now_};
  StartPlanning planning{.id = id,
                         .source = (*state)->placed,
                         .targets = {},
                         .plan = "",
                         .options = request.options(),
                         .keep = !request.validate_only(),
                         .state = request.state()};
  if (request.how_case() == v1::StartExecutionRequest::kPlan) {
    planning.plan = request.plan();
  } else {
    planning.targets = request.targets();
  }
  out_.push_back(std::move(planning));
}

absl::Status Controller::CheckMove(const PendingStart& start, const PlannedMove& move) {
  ASSIGN_OR_RETURN(const StateEntry* state, FindState("state", start.request.state()));
  RETURN_IF_ERROR(CheckFree(*state, start.request.expected_generation()));
  RETURN_IF_ERROR(CheckReady(*state, move.spared_hosts));
  for (const auto& [host, devices] : move.hosts) RETURN_IF_ERROR(CheckHosts(host, devices));
  return absl::OkStatus();
}

namespace {

// What is known of an execution before it has a name. `abandoned`: see State.abandoned_generation.
v1::Execution Preview(const v1::StartExecutionRequest& request, const PlannedMove& move,
                      int64_t abandoned) {
  v1::Execution preview;
  preview.set_state(request.state());
  preview.set_source_generation(request.expected_generation());
  preview.set_target_generation(std::max(request.expected_generation(), abandoned) + 1);
  preview.set_plan(move.plan);
  *preview.mutable_summary() = move.summary;
  *preview.mutable_planning() = move.planning;
  preview.set_windows(move.summary.windows());
  for (const v1::TargetDeviceList& list : move.target_device_lists) {
    *preview.add_target_device_lists() = list;
  }
  for (const int64_t id : move.lost_device_ids) preview.add_lost_device_ids(id);
  return preview;
}

}  // namespace

void Controller::OnPlanned(uint64_t id, absl::StatusOr<PlannedMove> move) {
  auto node = starts_.extract(id);
  if (node.empty()) return;
  const PendingStart& start = node.mapped();
  StateEntry* state = states_.Find(start.request.state());
  if (state != nullptr && state->planning == id) state->planning = 0;
  if (!move.ok()) return Reply(start.calls, move.status());
  absl::Status status = CheckMayChange();
  if (status.ok()) status = CheckMove(start, *move);
  if (status.ok() && !start.request.validate_only()) return Launch(start, *move);
  if (!start.request.validate_only()) out_.push_back(ReleasePlan{.plan = move->plan});
  if (!status.ok()) return Reply(start.calls, status);
  Reply(start.calls, Preview(start.request, *move, state->declared.abandoned_generation()));
}

namespace {

v1::Execution NewResource(const v1::StartExecutionRequest& request, const PlannedMove& move,
                          int64_t abandoned, absl::Time created, std::chrono::nanoseconds deadline,
                          std::string name) {
  v1::Execution resource = Preview(request, move, abandoned);
  resource.set_name(std::move(name));
  resource.set_request_id(request.request_id());
  SetTime(created, *resource.mutable_create_time());
  SetDuration(deadline, *resource.mutable_deadline());
  return resource;
}

Participant MakeParticipant(const std::string& host, const HostDevices& devices,
                            const PlannedMove& move, const v1::Execution& resource) {
  Participant participant{.host = host, .target = {}, .device_ids = devices.device_ids};
  if (auto part = move.target->hosts.find(host); part != move.target->hosts.end()) {
    participant.target = part->second.assignment;
  }
  participant.target.set_state(resource.state());
  participant.target.set_state_uid(resource.state_uid());
  participant.target.set_generation(resource.target_generation());
  return participant;
}

}  // namespace

void Controller::Launch(const PendingStart& start, const PlannedMove& move) {
  StateEntry& state = *states_.Find(start.request.state());
  std::chrono::nanoseconds deadline = ToNanos(start.request.deadline());
  if (deadline.count() == 0) deadline = options_.execution_deadline;
  const std::string job = *ParseStateName("state", state.name());
  const std::string name = absl::StrFormat("jobs/%s/executions/%016x", job, random_());
  v1::Execution resource = NewResource(start.request, move, state.declared.abandoned_generation(),
                                       start.asked.wall, deadline, name);
  resource.set_state_uid(state.uid());

  ExecutionSpec spec{.attempt = {},
                     .fingerprint = move.fingerprint,
                     .window_bytes = move.window_bytes,
                     .grant_ahead = options_.grant_ahead,
                     .deadline = start.asked.steady + deadline,
                     .quiesce_timeout = options_.quiesce_timeout,
                     .participants = {}};
  spec.attempt.set_execution(name);
  spec.attempt.set_attempt(1);
  std::set<DeviceKey> devices;
  for (const auto& [host, named] : move.hosts) {
    spec.participants.push_back(MakeParticipant(host, named, move, resource));
    for (const int32_t local : named.local_devices) devices.insert({host, local});
  }
  const auto [entry, added] =
      moves_.emplace(name, Move{.execution = Execution(std::move(spec), resource),
                                .target = move.target,
                                .devices = std::move(devices),
                                .keeps_plan = true});
  running_.insert(name);
  by_age_[AgeKey(entry->second.execution.resource())] = name;
  Move& added_move = entry->second;
  added_move.durable = false;
  added_move.waiting = start.calls;
  std::set<std::string> hosts;
  for (const auto& [host, named] : move.hosts) hosts.insert(host);
  std::vector<Record> records = KeepHosts(hosts);
  records.push_back(ExecutionRecord(added_move.execution.resource()));
  if (!resource.request_id().empty()) {
    request_ids_[RequestKey(state.name(), state.uid(), resource.request_id())] = name;
    added_move.request_digest = Digest(start.request);
    records.push_back(StartRequestRecord(name, added_move.request_digest));
  }
  state.execution = name;
  Touch(state.name());
  AddNote(absl::StrCat("started ", name, ": ", state.name(), " to generation ",
                       resource.target_generation()));
  Persist(std::move(records), [this, name] {
    Move& launched = moves_.at(name);
    launched.durable = true;
    Reply(std::exchange(launched.waiting, {}), launched.execution.resource());
    if (launched.execution.step() != Execution::Step::kQueued) return;  // failed meanwhile
    ledger_.Ask(name, launched.devices);
    AdmitMoves();
  });
}

}  // namespace remesh
