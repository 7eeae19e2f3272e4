// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/starts.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/membership/data_addresses.h"
#include "server/controller/states/not_ready.h"
#include "server/controller/values/digest.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

using google::protobuf::util::TimeUtil;

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

absl::Status CheckRequest(const v1::StartExecutionRequest& request) {
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

// The execution's resource, as far as it is known before it has a name. `abandoned`: see
// State.abandoned_generation.
v1::Execution Preview(const v1::StartExecutionRequest& request, const PlannedExecution& move,
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

v1::Execution NewResource(const v1::StartExecutionRequest& request, const PlannedExecution& move,
                          int64_t abandoned, absl::Time created, std::chrono::nanoseconds deadline,
                          std::string name) {
  v1::Execution resource = Preview(request, move, abandoned);
  resource.set_name(std::move(name));
  resource.set_request_id(request.request_id());
  *resource.mutable_create_time() = TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(created));
  *resource.mutable_deadline() = TimeUtil::NanosecondsToDuration(deadline.count());
  return resource;
}

ExecutionSpec MakeSpec(const v1::Execution& resource, const PlannedExecution& move,
                       const ControllerOptions& options, Timestamp deadline) {
  ExecutionSpec spec{.attempt = {},
                     .fingerprint = move.fingerprint,
                     .plan_digest = move.plan_digest,
                     .window_bytes = move.window_bytes,
                     .grant_ahead = options.grant_ahead,
                     .deadline = deadline,
                     .stall_timeout = options.stall_timeout,
                     .quiesce_timeout = options.quiesce_timeout,
                     .participants = {}};
  spec.attempt.set_execution(resource.name());
  spec.attempt.set_attempt(1);
  for (const auto& [host, named] : move.hosts) {
    const bool receives = move.target->hosts.contains(host);
    spec.participants.push_back(
        {.host = host, .target = receives ? move.target : nullptr, .device_ids = named.device_ids});
  }
  return spec;
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

absl::Status Starts::CheckFree(const StateEntry& state, int64_t expected_generation) const {
  const std::string& name = state.name();
  if (!state.execution.empty()) {
    return MakeError(
        absl::StatusCode::kAborted, absl::StrCat(name, " is being moved by ", state.execution),
        {.reason = "STATE_MOVING", .metadata = {{"state", name}, {"execution", state.execution}}});
  }
  if (reserves(name) || state.deleting) {
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

absl::Status Starts::CheckReady(const StateEntry& state,
                                const std::set<std::string>& spared) const {
  const v1::State::Phase phase = PhaseOf(state, membership_.workers(), spared);
  if (phase == v1::State::READY) return absl::OkStatus();
  return NotReady(state, membership_.workers());
}

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
  RETURN_IF_ERROR(CheckFree(*state, request.expected_generation()));
  // Which hosts a loss of devices spares is known only when the move is planned.
  const bool may_spare = !request.options().lost_device_ids().empty() || !request.plan().empty();
  if (!may_spare) RETURN_IF_ERROR(CheckReady(*state, {}));
  return state;
}

void Starts::Start(CallId call, v1::StartExecutionRequest request, Moment now, Outbox& out) {
  if (absl::Status bad = CheckRequest(request); !bad.ok()) return out.Reply(call, bad);
  const absl::StatusOr<bool> joined = Join(call, request, out);
  if (!joined.ok()) return out.Reply(call, joined.status());
  if (*joined) return;
  if (draining_ && !request.validate_only()) return out.Reply(call, ServerStops());
  const absl::StatusOr<const StateEntry*> state = CheckStart(request);
  if (!state.ok()) return out.Reply(call, state.status());
  const uint64_t id = next_planning_++;
  if (!request.validate_only()) reserved_.insert(request.state());
  const auto asked = std::make_shared<const v1::StartExecutionRequest>(std::move(request));
  planning_[id] = {.calls = {call}, .request = asked, .asked = now};
  StartPlanning planning{.id = id,
                         .source = (*state)->placed,
                         .targets = nullptr,
                         .plan = asked->plan(),
                         .options = asked->options(),
                         .keep = !asked->validate_only(),
                         .state = asked->state(),
                         .question = asked->validate_only() ? call : 0};
  if (asked->has_targets()) planning.targets = {asked, &asked->targets()};
  out.Add(std::move(planning));
}

absl::Status Starts::CheckMove(const PendingStart& start, const PlannedExecution& move) const {
  RETURN_IF_ERROR(leadership_.CheckMayChange());
  ASSIGN_OR_RETURN(const StateEntry* state,
                   FindState("state", start.request->state(), states_.registry()));
  RETURN_IF_ERROR(CheckFree(*state, start.request->expected_generation()));
  RETURN_IF_ERROR(CheckReady(*state, move.spared_hosts));
  RETURN_IF_ERROR(states_.CheckMove(*state, *move.target));
  for (const auto& [host, part] : move.target->hosts) {
    RETURN_IF_ERROR(CheckNotDrained(membership_, host));
  }
  std::set<std::string> hosts;
  for (const auto& [host, devices] : move.hosts) {
    RETURN_IF_ERROR(CheckHost(membership_.workers(), host, devices));
    hosts.insert(host);
  }
  RETURN_IF_ERROR(CheckCommonTransport(hosts, membership_.workers()));
  return CheckEncrypts(options_.encrypts_data, hosts, membership_.workers());
}

std::optional<Launch> Starts::OnPlanned(const Planned& planned, Outbox& out) {
  const auto node = planning_.extract(planned.id);
  if (node.empty()) return std::nullopt;
  const PendingStart& start = node.mapped();
  const bool only_asks = start.request->validate_only();
  if (!only_asks) reserved_.erase(start.request->state());
  if (!planned.move.ok()) {
    out.Reply(start.calls, planned.move.status());
    return std::nullopt;
  }
  const absl::Status status =
      draining_ && !only_asks ? ServerStops() : CheckMove(start, *planned.move);
  if (status.ok() && !only_asks) return MakeLaunch(start, *planned.move, out);
  if (!only_asks) out.Add(ReleasePlan{.plan = planned.move->plan});
  if (!status.ok()) {
    out.Reply(start.calls, status);
    return std::nullopt;
  }
  const StateEntry& state = *states_.registry().Find(start.request->state());
  out.Reply(start.calls,
            Preview(*start.request, *planned.move, state.declared.abandoned_generation()));
  return std::nullopt;
}

Launch Starts::MakeLaunch(const PendingStart& start, const PlannedExecution& move, Outbox& out) {
  const StateEntry& state = *states_.registry().Find(start.request->state());
  std::chrono::nanoseconds deadline(TimeUtil::DurationToNanoseconds(start.request->deadline()));
  if (deadline.count() == 0) deadline = options_.execution_deadline;
  const std::string job = *ParseStateName("state", state.name());
  const std::string name = absl::StrFormat("jobs/%s/executions/%016x", job, random_());
  v1::Execution resource = NewResource(*start.request, move, state.declared.abandoned_generation(),
                                       start.asked.wall, deadline, name);
  resource.set_state_uid(state.uid());
  ExecutionSpec spec = MakeSpec(resource, move, options_, start.asked.steady + deadline);
  spec.write_once = state.declared.write_once();
  Launch launch{.entry = {.execution = Execution(std::move(spec), resource),
                          .target = move.target,
                          .keeps_plan = true,
                          .spared_hosts = move.spared_hosts},
                .reliance = {.hosts = {}, .records = {}, .then = ExecutionStored{.name = name}}};
  for (const auto& [host, named] : move.hosts) {
    launch.reliance.hosts.insert(host);
    for (const int32_t local : named.local_devices) launch.entry.devices.insert({host, local});
  }
  launch.reliance.records.push_back(ExecutionRecord(launch.entry.execution.resource()));
  if (!resource.request_id().empty()) {
    launch.entry.request_digest = Digest(*start.request);
    launch.reliance.records.push_back(StartRequestRecord(name, launch.entry.request_digest));
  }
  launched_[name] = start.calls;
  out.Touch(state.name());
  out.Note(absl::StrCat("started ", name, ": ", state.name(), " to generation ",
                        resource.target_generation()));
  return launch;
}

void Starts::OnStored(const std::string& execution, Outbox& out) {
  const auto launched = launched_.extract(execution);
  out.Reply(launched.mapped(), executions_.Find(execution)->execution.resource());
}

void Starts::Forgive(Timestamp pause) {
  for (auto& [id, start] : planning_) start.asked.steady += pause;
}

}  // namespace remesh::server
