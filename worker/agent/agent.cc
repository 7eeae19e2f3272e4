// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/agent.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/program/shard_columns.h"
#include "service/rpc/error_info.h"
#include "worker/agent/peer_links.h"
#include "worker/local/state_errors.h"

namespace remesh::worker {
namespace {

std::string KeyOf(const v1::AttemptId& id) {
  return absl::StrCat(id.execution(), "#", id.attempt());
}

// Whether the command says that what is written once is committed.
bool TellsCommittedWrite(const v1::AttachResponse& response) {
  const v1::Assignment& assignment = response.assign_state().assignment();
  return response.has_commit_write() || (assignment.write_once() && assignment.committed());
}

// Commands that no journal may forget once they were carried out, and Welcome, which says whose
// journal it is.
bool BindsToJournal(const v1::AttachResponse& response) {
  return response.has_welcome() || response.has_commit() || response.has_retire() ||
         response.has_abort() || response.has_forget_state() || TellsCommittedWrite(response);
}

absl::Status WorkerStops() {
  return MakeError(absl::StatusCode::kUnavailable, "the worker stops", {"WORKER_STOPS", {}});
}

}  // namespace

Agent::Agent(Options options, Ports ports, Strand* strand, Strand* files, Strand* loans,
             BufferStore* store, DataThread* data, WorkerMetrics* metrics)
    : options_(std::move(options)),
      ports_(std::move(ports)),
      strand_(strand),
      files_(strand, files),
      loans_(strand, loans),
      store_(store),
      data_(data),
      metrics_(metrics),
      buffers_(options_.identity.host(), store, &files_, &loans_,
               {.moved_by = [this](const std::string& state) { return MovedBy(state); },
                .changed =
                    [this](const v1::StateManifest& manifest) {
                      v1::AttachRequest event;
                      *event.mutable_manifest_changed()->mutable_manifest() = manifest;
                      ports_.send(event);
                      metrics_->SetBufferBytes(store_->bytes());
                    },
                .reserved =
                    [this](const std::string& state, const absl::Status& status) {
                      metrics_->SetBufferBytes(store_->bytes());
                      calls_.Reserved(state, status);
                      FinishForgetting();
                    }}),
      host_(options_.identity, options_.server),
      calls_(&buffers_, &host_, [this](const std::string& state) {
        v1::AttachRequest event;
        event.mutable_state_wanted()->set_state(state);
        ports_.send(event);
      }) {
  metrics_->SetBufferBytes(store_->bytes());
  store_->SetCluster(options_.memory.record().position().cluster_uid());
}

void Agent::Drain(bool at_once) {
  draining_ = true;
  if (!at_once) return;
  for (const auto& [key, entry] : attempts_) Fail(entry.attempt.prepare().attempt(), WorkerStops());
}

void Agent::Close() {
  calls_.Close();
  buffers_.Close();
  for (auto& [key, entry] : attempts_) {
    NoteModified(entry);
    if (entry.reserving != nullptr) entry.reserving->Cancel();
  }
}

v1::Register Agent::Attaching() {
  deaf_ = false;
  parts_.Clear();
  const worker::AgentRecord& record = options_.memory.record();
  v1::Register message = options_.identity;
  for (const std::string& link : LinksOf(*data_).all()) {
    v1::DataAddress& address = *message.add_data_addresses();
    address.set_transport(link);
    address.set_address(data_->transport_address());
  }
  message.set_supports_write_once(true);
  message.set_supports_short_prepare(true);
  message.set_supports_short_assign_state(true);
  message.set_highest_epoch(record.highest_epoch());
  message.set_incarnation(incarnation_);
  message.set_last_incarnation(record.incarnation());
  message.set_host_secret(record.host_secret());
  if (record.has_position()) *message.mutable_position() = record.position();
  for (const Generation* held : store_->List()) *message.add_manifests() = held->Summary();
  for (const auto& [key, entry] : attempts_)
    *message.add_attempts() = entry.attempt.prepare().attempt();
  for (const v1::Prepare& command : waiting_) *message.add_attempts() = command.attempt();
  return message;
}

absl::Status Agent::CheckEpoch(uint64_t epoch) const {
  const uint64_t highest = options_.memory.record().highest_epoch();
  if (epoch >= highest) return absl::OkStatus();
  const std::string theirs = absl::StrCat(epoch), ours = absl::StrCat(highest);
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("a planner of epoch ", theirs, " commands, but epoch ", ours, " was seen"),
      {"STALE_EPOCH", {{"epoch", theirs}, {"highest_epoch", ours}}});
}

// Another cluster's planner does not know the generations on this host, and would free them.
absl::Status Agent::CheckCluster(const std::string& cluster_uid) const {
  std::string ours = options_.memory.record().position().cluster_uid();
  for (const Generation* held : store_->List()) {
    if (!ours.empty()) break;
    ours = held->manifest.cluster_uid();
  }
  if (ours.empty() || ours == cluster_uid) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("a planner of cluster \"", cluster_uid,
                   "\" commands, but this host holds data of cluster ", ours),
      {"OTHER_CLUSTER", {{"cluster_uid", ours}, {"planner_cluster_uid", cluster_uid}}});
}

// Checks a command, and writes to disk what must outlive this process before it is carried out.
absl::Status Agent::Admit(const v1::AttachResponse& response) {
  worker::AgentRecord next = options_.memory.record();
  if (response.has_welcome()) {
    RETURN_IF_ERROR(CheckCluster(response.welcome().cluster_uid()));
    next.mutable_position()->set_cluster_uid(response.welcome().cluster_uid());
    next.set_incarnation(response.welcome().incarnation());
  }
  if (!response.position().cluster_uid().empty())
    RETURN_IF_ERROR(CheckCluster(response.position().cluster_uid()));
  RETURN_IF_ERROR(CheckEpoch(response.epoch()));
  next.set_highest_epoch(response.epoch());
  if (BindsToJournal(response) && IsFurther(response.position(), next.position()))
    *next.mutable_position() = response.position();
  return options_.memory.Update(next);
}

void Agent::Command(const v1::AttachResponse& response) {
  if (deaf_) return;
  if (const absl::Status status = Admit(response); !status.ok()) return Refuse(status);
  Execute(response);
}

void Agent::Refuse(const absl::Status& why) {
  deaf_ = true;
  metrics_->CountError(why);
  ports_.disconnect(why);
}

void Agent::Execute(const v1::AttachResponse& response) {
  switch (response.command_case()) {
    case v1::AttachResponse::kWelcome:
      return Welcome(response.welcome());
    case v1::AttachResponse::kAssignState:
      return AssignState(response.assign_state().assignment());
    case v1::AttachResponse::kForgetState:
      return Forget(response.forget_state());
    case v1::AttachResponse::kPrepare:
      return Prepare(response.prepare());
    case v1::AttachResponse::kGrant:
      if (Entry* entry = Find(response.grant().attempt())) {
        Run(KeyOf(response.grant().attempt()), entry->attempt.Grant(response.grant().until()));
      }
      return;
    case v1::AttachResponse::kVerify:
      if (Entry* entry = Find(response.verify().attempt())) {
        return Run(KeyOf(response.verify().attempt()), entry->attempt.Verify());
      }
      return;
    case v1::AttachResponse::kCommit:
      return Commit(response.commit());
    case v1::AttachResponse::kRetire:
      return Retire(response.retire());
    case v1::AttachResponse::kAbort:
      return Abort(response.abort());
    case v1::AttachResponse::kAssignmentPart:
      if (const absl::Status status = parts_.Add(response.assignment_part().assignment());
          !status.ok()) {
        Refuse(AtField("assignment_part.assignment", status));
      }
      return;
    case v1::AttachResponse::kDropCommunicators:
      return data_->DropLasting(response.drop_communicators().name());
    case v1::AttachResponse::kCommitWrite:
      buffers_.CommitWrite(response.commit_write());
      return calls_.Retry(response.commit_write().state());
    case v1::AttachResponse::COMMAND_NOT_SET:
      return;  // of a newer planner
  }
}

Agent::Entry* Agent::Find(const v1::AttemptId& id) {
  const auto it = attempts_.find(KeyOf(id));
  return it == attempts_.end() ? nullptr : &it->second;
}

void Agent::Welcome(const v1::Welcome& command) {
  incarnation_ = command.incarnation();
  store_->SetCluster(command.cluster_uid());
  ports_.welcomed(command);
  host_.OnWelcome(command);
  calls_.Welcomed();
  buffers_.OnWelcome();
  calls_.SendWanted();
  for (auto& [key, entry] : attempts_) Run(key, entry.attempt.Reattached());
}

std::string Agent::MovedBy(const std::string& state) const {
  for (const auto& [key, entry] : attempts_) {
    const v1::Prepare& prepare = entry.attempt.prepare();
    if (prepare.target().state() == state && entry.attempt.active())
      return prepare.attempt().execution();
  }
  return "";
}

// Whether the state has attempts here that all end by themselves: they are given up or committed,
// and links take their time to let go. The memory that they still hold is what the next one takes
// over.
bool Agent::OnlyEnds(const std::string& state) const {
  bool ends = false;
  for (const auto& [key, entry] : attempts_) {
    if (entry.attempt.prepare().target().state() != state) continue;
    const Attempt::Phase phase = entry.attempt.phase();
    if (phase != Attempt::Phase::kStopping && phase != Attempt::Phase::kCommitted) return false;
    ends = true;
  }
  return ends;
}

void Agent::AssignState(v1::Assignment assignment) {
  const std::string state = assignment.state();
  assignment = parts_.Complete(std::move(assignment));
  const absl::Status columns = proto::ColumnsToShards(assignment);
  if (!columns.ok()) return Refuse(AtField("assign_state.assignment", columns));
  if (buffers_.Assign(assignment)) calls_.Retry(state);
}

void Agent::PrepareWaiting() {
  for (v1::Prepare& command : std::exchange(waiting_, {})) Begin(std::move(command));
}

void Agent::Prepare(v1::Prepare command) {
  *command.mutable_target() = parts_.Complete(std::move(*command.mutable_target()));
  const absl::Status columns = proto::ColumnsToShards(*command.mutable_target());
  if (!columns.ok()) return Fail(command.attempt(), AtField("target", columns));
  Begin(std::move(command));
}

void Agent::Begin(v1::Prepare command) {
  const std::string key = KeyOf(command.attempt());
  if (Entry* known = Find(command.attempt())) return Run(key, known->attempt.Reattached());
  if (draining_) return Fail(command.attempt(), WorkerStops());
  const std::string& state = command.target().state();
  if (OnlyEnds(state)) {
    std::erase_if(waiting_,
                  [&](const v1::Prepare& other) { return KeyOf(other.attempt()) == key; });
    waiting_.push_back(std::move(command));
    return;
  }
  if (const std::string other = MovedBy(state); !other.empty())
    return Fail(command.attempt(), StateMoving(state, other));
  auto devices = AttemptDevices::Make(command);
  if (!devices.ok()) return Fail(command.attempt(), devices.status());
  const int count = devices->local_count();
  const auto have = static_cast<int>(data_->devices().all().size());
  if (data_->windowed() && (count == 0 || count > have)) {
    return Fail(command.attempt(),
                InvalidField(absl::StrCat("peers[", command.self(), "].device_ids"),
                             absl::StrCat(count, " devices"), absl::StrCat("must be 1 to ", have)));
  }
  Entry& entry = attempts_.try_emplace(key, command).first->second;
  entry.devices = *std::move(devices);
  // Reserving may take longer than communicators are kept idle.
  if (entry.attempt.prepare().communicators().reuse())
    data_->AwaitLasting(entry.attempt.prepare().communicators().name());
  Run(key, entry.attempt.Start());
}

void Agent::Commit(const v1::Commit& command) {
  buffers_.Committed(command.state(), command.state_uid(), command.generation());
  if (Entry* entry = Find(command.attempt()))
    return Run(KeyOf(command.attempt()), entry->attempt.Commit());
  // The attempt is of an earlier life of this worker, or Commit came again: what trainers have done
  // since is theirs.
  const Generation* held =
      Written(command.attempt(), command.state(), command.state_uid(), command.generation());
  absl::Status status;
  if (held == nullptr || held->phase() == v1::SHARD_PHASE_PREPARED) {
    const std::string number = absl::StrCat(command.generation());
    status = MakeError(absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("this host has not verified generation ", number, " of ",
                                    command.state(), " for ", command.attempt().execution()),
                       {"NOT_VERIFIED",
                        {{"state", command.state()},
                         {"generation", number},
                         {"execution", command.attempt().execution()}}});
  } else if (held->pending()) {
    status = store_->SetPhase(command.state(), command.generation(), v1::SHARD_PHASE_READY);
  }
  if (!status.ok()) return Fail(command.attempt(), status);
  SendCommitted(command.attempt(), command.state(), command.generation());
  buffers_.Announce(command.state(), command.generation());
  calls_.Retry(command.state());
}

void Agent::SendCommitted(const v1::AttemptId& id, const std::string& state, int64_t generation,
                          const std::string& kept) {
  v1::AttachRequest answer;
  *answer.mutable_committed()->mutable_attempt() = id;
  const Generation* held = store_->Find(state, generation);
  if (held != nullptr && held->manifest.sealed_size() > 0)
    *answer.mutable_committed()->mutable_manifest() = held->Summary();
  if (!kept.empty()) {
    v1::KeptCommunicators& communicators = *answer.mutable_committed()->mutable_communicators();
    communicators.set_name(kept);
    *communicators.mutable_kept_for() =
        google::protobuf::util::TimeUtil::MillisecondsToDuration(data_->keeps_for().count());
  }
  ports_.send(answer);
}

void Agent::Retire(const v1::Retire& command) {
  const Generation* held = store_->Find(command.state(), command.generation());
  if (held != nullptr && held->state_uid() == command.state_uid())
    store_->Recycle(command.state(), command.generation());
  buffers_.Retired(command.state(), command.state_uid(), command.generation());
  calls_.Retry(command.state());
  metrics_->SetBufferBytes(store_->bytes());
  v1::AttachRequest answer;
  answer.mutable_retired()->set_state(command.state());
  answer.mutable_retired()->set_generation(command.generation());
  answer.mutable_retired()->set_state_uid(command.state_uid());
  ports_.send(answer);
}

// Whatever still reads, writes or reserves the state ends first.
void Agent::Forget(const v1::ForgetState& command) {
  forgetting_.push_back(command);
  buffers_.WillForget(command.state(), command.state_uid());
  std::erase_if(waiting_, [&](const v1::Prepare& other) {
    return other.target().state() == command.state() &&
           other.target().state_uid() == command.state_uid();
  });
  std::vector<std::string> keys;
  for (const auto& [key, entry] : attempts_) {
    const v1::Assignment& target = entry.attempt.prepare().target();
    if (target.state() == command.state() && target.state_uid() == command.state_uid())
      keys.push_back(key);
  }
  for (const std::string& key : keys)
    Run(key, attempts_.at(key).attempt.Abort(/*even_committed=*/true));
  FinishForgetting();
}

void Agent::FinishForgetting() {
  std::erase_if(forgetting_, [this](const v1::ForgetState& command) {
    for (const auto& [key, entry] : attempts_) {
      const v1::Assignment& target = entry.attempt.prepare().target();
      if (target.state() == command.state() && target.state_uid() == command.state_uid())
        return false;
    }
    if (!buffers_.Forget(command.state(), command.state_uid())) return false;
    calls_.Retry(command.state());
    v1::AttachRequest answer;
    answer.mutable_forgotten()->set_state(command.state());
    answer.mutable_forgotten()->set_state_uid(command.state_uid());
    ports_.send(answer);
    return true;
  });
  metrics_->SetBufferBytes(store_->bytes());
}

void Agent::Abort(const v1::Abort& command) {
  if (command.even_committed())
    buffers_.TakenBack(command.state(), command.state_uid(), command.generation());
  if (Entry* entry = Find(command.attempt()))
    return Run(
        KeyOf(command.attempt()),
        entry->attempt.Abort(command.even_committed(), service::StatusFromProto(command.error())));
  std::erase_if(waiting_, [&](const v1::Prepare& other) {
    return KeyOf(other.attempt()) == KeyOf(command.attempt());
  });
  const Generation* held =
      Written(command.attempt(), command.state(), command.state_uid(), command.generation());
  if (held != nullptr && (held->pending() || command.even_committed()))
    store_->Drop(command.state(), command.generation());
  calls_.Retry(command.state());
  metrics_->SetBufferBytes(store_->bytes());
  v1::AttachRequest answer;
  *answer.mutable_quiesced()->mutable_attempt() = command.attempt();
  ports_.send(answer);
}

const Generation* Agent::Written(const v1::AttemptId& id, const std::string& state,
                                 const std::string& state_uid, int64_t generation) const {
  const Generation* held = store_->Find(state, generation);
  if (held == nullptr || KeyOf(held->manifest.attempt()) != KeyOf(id)) return nullptr;
  return state_uid.empty() || state_uid == held->state_uid() ? held : nullptr;
}

void Agent::Fail(const v1::AttemptId& id, const absl::Status& status) {
  metrics_->CountError(status);
  v1::AttachRequest answer;
  *answer.mutable_failed()->mutable_attempt() = id;
  *answer.mutable_failed()->mutable_error() = service::StatusToProto(status);
  ports_.send(answer);
}

}  // namespace remesh::worker
