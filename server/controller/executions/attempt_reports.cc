// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/attempt_reports.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/controller/states/write_once.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

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

}  // namespace

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

bool HoldsTarget(const WorkerRegistry& workers, const std::string& host,
                 const v1::Execution& execution) {
  const v1::StateManifest* held = workers.Find(host)->Manifest(
      execution.state(), execution.state_uid(), execution.target_generation());
  return held != nullptr && held->phase() != v1::SHARD_PHASE_PREPARED &&
         (held->execution() == execution.name() || held->execution().empty());
}

bool HasCommitted(const WorkerRegistry& workers, const std::string& host,
                  const ExecutionEntry& entry) {
  const bool receives = entry.target != nullptr && entry.target->hosts.contains(host);
  return !receives || HoldsTarget(workers, host, entry.execution.resource());
}

void TakeReport(const std::string& host, const v1::AttachRequest& message,
                const StateRegistry& states, const WorkerRegistry& workers, ExecutionEntry& entry,
                Moment now, ExecutionActions& actions) {
  using Event = v1::AttachRequest;
  Execution& execution = entry.execution;
  switch (message.event_case()) {
    case Event::kPrepared:
      TakePrepared(host, states, workers, entry, now, actions);
      break;
    case Event::kWindowDone:
      execution.OnWindowDone(host, message.window_done(), now, actions);
      break;
    case Event::kVerified:
      execution.OnVerified(host, now, actions);
      break;
    case Event::kCommitted:
      execution.OnCommitted(host, actions);
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
}

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

}  // namespace remesh::server
