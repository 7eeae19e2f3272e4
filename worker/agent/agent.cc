// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/agent.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/error_info.h"
#include "worker/manifest.pb.h"
#include "worker/store/durable_file.h"

namespace remesh {
namespace {

std::string KeyOf(const v1::AttemptId& id) {
  return absl::StrCat(id.execution(), "#", id.attempt());
}

}  // namespace

Agent::Agent(Options options, Ports ports, Strand* strand, Strand* files, BufferStore* store,
             DataThread* data, WorkerMetrics* metrics)
    : options_(std::move(options)),
      ports_(std::move(ports)),
      strand_(strand),
      files_(files),
      store_(store),
      data_(data),
      metrics_(metrics),
      buffers_(store, {[this](const std::string& state) { return Moving(state); },
                       [this](const v1::StateManifest& manifest) {
                         v1::AttachRequest event;
                         *event.mutable_manifest_changed()->mutable_manifest() = manifest;
                         ports_.say(event);
                         metrics_->SetBufferBytes(store_->bytes());
                       }}),
      calls_(&buffers_, [this](const std::string& state) {
        v1::AttachRequest event;
        event.mutable_state_wanted()->set_state(state);
        ports_.say(event);
      }) {
  metrics_->SetBufferBytes(store_->bytes());
}

void Agent::Close() {
  calls_.Close();
  for (auto& [key, entry] : attempts_) {
    if (entry.reserving != nullptr) *entry.reserving = true;
  }
}

v1::Register Agent::Attaching() const {
  v1::Register message = options_.identity;
  v1::DataAddress& address = *message.add_data_addresses();
  address.set_transport(data_->transport_name());
  address.set_address(data_->transport_address());
  message.set_highest_epoch(options_.highest_epoch);
  for (const Generation* held : store_->List()) *message.add_manifests() = held->Summary();
  return message;
}

absl::Status Agent::Obey(uint64_t epoch) {
  if (epoch == options_.highest_epoch) return absl::OkStatus();
  if (epoch < options_.highest_epoch) {
    const std::string theirs = absl::StrCat(epoch), ours = absl::StrCat(options_.highest_epoch);
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("a planner of epoch ", theirs, " commands, but epoch ", ours, " was seen"),
        {"STALE_EPOCH", {{"epoch", theirs}, {"highest_epoch", ours}}});
  }
  worker::AgentRecord record;
  record.set_highest_epoch(epoch);
  record.set_incarnation(options_.identity.incarnation());
  RETURN_IF_ERROR(WriteDurably(options_.record_path, record));
  options_.highest_epoch = epoch;
  return absl::OkStatus();
}

void Agent::Command(const v1::AttachResponse& response) {
  if (const absl::Status status = Obey(response.epoch()); !status.ok()) {
    metrics_->CountError(status);
    return ports_.disconnect();
  }
  switch (response.command_case()) {
    case v1::AttachResponse::kWelcome:
      return Welcome(response.welcome());
    case v1::AttachResponse::kAssignState:
      buffers_.Assign(response.assign_state().assignment());
      return calls_.Retry();
    case v1::AttachResponse::kForgetState:
      return buffers_.Forget(response.forget_state().state(), response.forget_state().state_uid());
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
    case v1::AttachResponse::COMMAND_NOT_SET:
      return;  // of a newer planner
  }
}

Agent::Entry* Agent::Find(const v1::AttemptId& id) {
  const auto it = attempts_.find(KeyOf(id));
  return it == attempts_.end() ? nullptr : &it->second;
}

void Agent::Welcome(const v1::Welcome& command) {
  ports_.welcomed(command);
  buffers_.ForgetAbsent();
  calls_.SayWanted();
  for (auto& [key, entry] : attempts_) Run(key, entry.attempt.Reattached());
}

bool Agent::Moving(const std::string& state) const {
  for (const auto& [key, entry] : attempts_) {
    if (entry.attempt.prepare().target().state() == state && entry.attempt.active()) {
      return true;
    }
  }
  return false;
}

void Agent::Prepare(const v1::Prepare& command) {
  const std::string key = KeyOf(command.attempt());
  if (Entry* known = Find(command.attempt())) return Run(key, known->attempt.Reattached());
  const std::string& state = command.target().state();
  if (Moving(state)) {
    return Fail(command.attempt(),
                MakeError(absl::StatusCode::kFailedPrecondition,
                          absl::StrCat("state ", state, " is in another attempt on this host"),
                          {"STATE_MOVING", {{"state", state}}}));
  }
  auto devices = AttemptDevices::Make(command);
  if (!devices.ok()) return Fail(command.attempt(), devices.status());
  Entry& entry = attempts_.try_emplace(key, command).first->second;
  entry.devices = *std::move(devices);
  Run(key, entry.attempt.Start());
}

void Agent::Commit(const v1::Commit& command) {
  if (Entry* entry = Find(command.attempt()))
    return Run(KeyOf(command.attempt()), entry->attempt.Commit());
  // Of an earlier life of this worker.
  const Generation* held = store_->Find(command.state(), command.generation());
  absl::Status status;
  if (held != nullptr && held->phase() == v1::SHARD_PHASE_VERIFIED &&
      KeyOf(held->manifest.attempt()) == KeyOf(command.attempt())) {
    status = store_->SetPhase(command.state(), command.generation(), v1::SHARD_PHASE_READY);
  } else if (held == nullptr || held->pending()) {
    status = MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("this host has not verified generation ", command.generation(), " of ",
                     command.state()),
        {"NOT_VERIFIED",
         {{"state", command.state()}, {"generation", absl::StrCat(command.generation())}}});
  }
  if (!status.ok()) return Fail(command.attempt(), status);
  v1::AttachRequest answer;
  *answer.mutable_committed()->mutable_attempt() = command.attempt();
  ports_.say(answer);
  buffers_.Announce(command.state(), command.generation());
  calls_.Retry();
}

void Agent::Retire(const v1::Retire& command) {
  const Generation* held = store_->Find(command.state(), command.generation());
  if (held != nullptr && held->state_uid() == command.state_uid())
    store_->Drop(command.state(), command.generation());
  metrics_->SetBufferBytes(store_->bytes());
  v1::AttachRequest answer;
  answer.mutable_retired()->set_state(command.state());
  answer.mutable_retired()->set_generation(command.generation());
  ports_.say(answer);
}

void Agent::Abort(const v1::Abort& command) {
  if (Entry* entry = Find(command.attempt()))
    return Run(KeyOf(command.attempt()), entry->attempt.Abort());
  DropPending(command.attempt(), command.state(), command.generation());
  v1::AttachRequest answer;
  *answer.mutable_quiesced()->mutable_attempt() = command.attempt();
  ports_.say(answer);
}

void Agent::DropPending(const v1::AttemptId& id, const std::string& state, int64_t generation) {
  const Generation* held = store_->Find(state, generation);
  if (held != nullptr && held->pending() && KeyOf(held->manifest.attempt()) == KeyOf(id)) {
    store_->Drop(state, generation);
  }
  metrics_->SetBufferBytes(store_->bytes());
}

void Agent::Fail(const v1::AttemptId& id, const absl::Status& status) {
  metrics_->CountError(status);
  v1::AttachRequest answer;
  *answer.mutable_failed()->mutable_attempt() = id;
  *answer.mutable_failed()->mutable_error() = StatusToProto(status);
  ports_.say(answer);
}

}  // namespace remesh
