// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/starts.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/membership/data_addresses.h"
#include "server/controller/states/not_ready.h"
#include "server/controller/states/replicas.h"
#include "server/controller/states/write_once.h"
#include "server/controller/values/digest.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr int64_t kDeadlineSecondsMax = 30 * 24 * 3600;
constexpr int kPlanningsMax = 3;  // of one start, while more and more hosts are lost

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
  if (request.how_case() == v1::StartExecutionRequest::kPlan && request.lose_absent_hosts()) {
    return InvalidField("lose_absent_hosts", "true",
                        "must be false with a plan: the plan has its own lost devices");
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

// The names of the arrays with shards on the host.
std::set<std::string_view> ArraysOn(const PlacedState& placed, const HostPart& part) {
  std::set<std::string_view> names;
  for (const PlacedShard& shard : part.shards) {
    if (shard.array < placed.arrays.size()) names.insert(placed.arrays[shard.array].name());
  }
  return names;
}

// An array that the targets do not name stays where it is, and nothing may stay on a drained host.
absl::Status CheckKept(const v1::StartExecutionRequest& request, const StateEntry& state,
                       const Membership& membership) {
  for (const auto& [host, part] : state.placed->hosts) {
    if (!membership.drained(host)) continue;
    std::set<std::string_view> kept = ArraysOn(*state.placed, part);
    for (const v1::TargetArray& array : request.targets().arrays()) kept.erase(array.name());
    if (kept.empty()) continue;
    return InvalidField("targets.arrays", std::string(*kept.begin()),
                        absl::StrCat("must be named: without a target it stays on host ", host,
                                     ", which is drained"));
  }
  return absl::OkStatus();
}

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

// The costs of a move to where the state is.
v1::PlanSummary NoCosts() {
  v1::PlanSummary summary;
  summary.set_quality(1);
  summary.set_schedule_price(1);
  return summary;
}

// The execution's resource, as far as it is known before it has a name. `abandoned`: see
// State.abandoned_generation.
v1::Execution Preview(const v1::StartExecutionRequest& request, const PlannedExecution& move,
                      int64_t abandoned) {
  const int64_t source = request.expected_generation();
  v1::Execution preview;
  preview.set_state(request.state());
  preview.set_source_generation(source);
  preview.set_target_generation(move.moves_nothing ? source : std::max(source, abandoned) + 1);
  preview.set_plan(move.plan);
  *preview.mutable_summary() = move.moves_nothing ? NoCosts() : move.summary;
  if (!move.plan.empty()) *preview.mutable_planning() = move.planning;
  preview.set_windows(preview.summary().windows());
  preview.set_predicted_seconds(preview.summary().predicted_seconds());
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
                     .participants = {},
                     .exchanges = move.exchanges};
  spec.attempt.set_execution(resource.name());
  spec.attempt.set_attempt(1);
  for (const auto& [host, named] : move.hosts) {
    const bool receives = move.target->hosts.contains(host);
    spec.participants.push_back(
        {.host = host, .target = receives ? move.target : nullptr, .device_ids = named.device_ids});
  }
  return spec;
}

// An execution that had nothing to do.
Execution MakeEnded(v1::Execution resource, absl::Time now) {
  resource.set_phase(v1::Execution::SUCCEEDED);
  *resource.mutable_end_time() = TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(now));
  ExecutionSpec spec;
  spec.attempt.set_execution(resource.name());
  spec.attempt.set_attempt(1);
  ExecutionActions none;
  return Execution::Restore(std::move(spec), std::move(resource), none);
}

// What a move claims and names until it has ended.
ExecutionEntry MakeRunning(ExecutionSpec spec, const v1::Execution& resource,
                           const PlannedExecution& move) {
  ExecutionEntry entry{.execution = Execution(std::move(spec), resource),
                       .target = move.target,
                       .keeps_plan = true,
                       .spared_hosts = move.spared_hosts};
  for (const auto& [host, named] : move.hosts) entry.devices[host] = named.local_devices;
  return entry;
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
  if (!state.execution.empty() || reserves(name) || state.deleting)
    return StateMoving(name, state.execution);
  if (state.generation() != expected_generation) {
    const std::string expected = absl::StrCat(expected_generation),
                      found = absl::StrCat(state.generation());
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("expected_generation: value \"", expected,
                     "\" does not match the current generation of ", name, ", ", found),
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
  if (request.has_targets()) RETURN_IF_ERROR(CheckKept(request, *state, membership_));
  if (request.lose_absent_hosts()) RETURN_IF_ERROR(CheckCanLose(*state));
  // Which hosts a loss of devices spares is known only when the move is planned.
  const bool may_spare = !request.options().lost_device_ids().empty() || !request.plan().empty() ||
                         request.lose_absent_hosts();
  if (!may_spare) RETURN_IF_ERROR(CheckReady(*state, {}));
  return state;
}

// Whether the loss of hosts is all that the state may suffer from.
absl::Status Starts::CheckCanLose(const StateEntry& state) const {
  const WorkerRegistry& workers = membership_.workers();
  const bool building = PhaseOf(state, workers) == v1::State::BUILDING;
  if (building || !state.newer_hosts.empty()) return NotReady(state, workers);
  return absl::OkStatus();
}

void Starts::Start(CallId call, v1::StartExecutionRequest request, Moment now, Outbox& out) {
  if (absl::Status bad = CheckRequest(request); !bad.ok()) return out.Reply(call, bad);
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
  if (state == nullptr || !CheckFree(*state, start.request->expected_generation()).ok()) {
    return false;
  }
  const std::set<std::string> lost = LostHostsOf(*state, membership_.workers());
  return CheckCanLose(*state).ok() &&
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
  RETURN_IF_ERROR(CheckFree(*state, start.request->expected_generation()));
  if (start.request->has_targets()) {
    RETURN_IF_ERROR(CheckKept(*start.request, *state, membership_));
  }
  RETURN_IF_ERROR(CheckReady(*state, move.spared_hosts));
  return move.moves_nothing ? absl::OkStatus() : CheckHosts(*state, move);
}

// Whether the hosts of the move can carry it out, and may hold its target.
absl::Status Starts::CheckHosts(const StateEntry& state, const PlannedExecution& move) const {
  RETURN_IF_ERROR(states_.CheckMove(state, *move.target));
  if (state.declared.write_once()) {
    RETURN_IF_ERROR(CheckKnowWriteOnce(*move.target, membership_.workers()));
  }
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
  std::chrono::nanoseconds deadline(TimeUtil::DurationToNanoseconds(start.request->deadline()));
  if (deadline.count() == 0) deadline = options_.execution_deadline;
  const std::string name = NewName(state.name());
  v1::Execution resource = NewResource(*start.request, move, state.declared.abandoned_generation(),
                                       start.asked.wall, deadline, name);
  resource.set_state_uid(state.uid());
  ExecutionSpec spec = MakeSpec(resource, move, options_, start.asked.steady + deadline);
  spec.write_once = state.declared.write_once();
  ExecutionEntry entry = move.moves_nothing
                             ? ExecutionEntry{.execution = MakeEnded(resource, now.wall)}
                             : MakeRunning(std::move(spec), resource, move);
  Reliance reliance{.hosts = {}, .records = {}, .then = ExecutionStored{.name = name}};
  for (const Participant& host : entry.execution.spec().participants) {
    reliance.hosts.insert(host.host);
  }
  reliance.records.push_back(ExecutionRecord(entry.execution.resource()));
  if (!resource.request_id().empty()) {
    entry.request_digest = Digest(*start.request);
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
