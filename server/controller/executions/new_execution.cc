// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/new_execution.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/controller/values/digest.h"

namespace remesh::server {
namespace {

using google::protobuf::util::TimeUtil;

// The costs of a move to where the state is.
v1::PlanSummary NoCosts() {
  v1::PlanSummary summary;
  summary.set_quality(1);
  summary.set_schedule_price(1);
  return summary;
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

ExecutionEntry MakeExecution(const PlannedStart& start, const std::string& name,
                             const ControllerOptions& options, Moment now) {
  std::chrono::nanoseconds deadline(TimeUtil::DurationToNanoseconds(start.request.deadline()));
  if (deadline.count() == 0) deadline = options.execution_deadline;
  v1::Execution resource =
      NewResource(start.request, start.move, start.state.declared.abandoned_generation(),
                  start.asked.wall, deadline, name);
  resource.set_state_uid(start.state.uid());
  ExecutionSpec spec = MakeSpec(resource, start.move, options, start.asked.steady + deadline);
  spec.write_once = start.state.declared.write_once();
  ExecutionEntry entry = start.move.moves_nothing
                             ? ExecutionEntry{.execution = MakeEnded(resource, now.wall)}
                             : MakeRunning(std::move(spec), resource, start.move);
  if (!resource.request_id().empty()) entry.request_digest = Digest(start.request);
  return entry;
}

}  // namespace remesh::server
