// SPDX-License-Identifier: Apache-2.0
#include "server/testing/scripted_worker.h"

#include <utility>

#include "proto/program/program_proto.h"

namespace remesh::server {
namespace {

v1::StateManifest ManifestOf(const v1::Assignment& assignment) {
  v1::StateManifest manifest;
  manifest.set_state(assignment.state());
  manifest.set_state_uid(assignment.state_uid());
  manifest.set_generation(assignment.generation());
  manifest.set_phase(v1::SHARD_PHASE_READY);
  manifest.set_sealed_shards(assignment.shards_size());
  manifest.set_total_shards(assignment.shards_size());
  return manifest;
}

}  // namespace

ScriptedWorker::ScriptedWorker(std::shared_ptr<grpc::Channel> channel, v1::Register identity,
                               OnCommand on_command)
    : channel_(std::move(channel)),
      identity_(std::move(identity)),
      on_command_(std::move(on_command)),
      stub_(v1::WorkerService::NewStub(channel_)),
      stream_(stub_->Attach(&context_)) {
  v1::AttachRequest first;
  *first.mutable_register_() = identity_;
  Send(first);
  reader_ = std::thread([this] { Read(); });
}

ScriptedWorker::~ScriptedWorker() {
  context_.TryCancel();
  reader_.join();
}

void ScriptedWorker::Kill() { context_.TryCancel(); }

void ScriptedWorker::Send(const v1::AttachRequest& message) {
  absl::MutexLock lock(&write_mutex_);
  stream_->Write(message);
}

void ScriptedWorker::Read() {
  v1::AttachResponse command;
  while (stream_->Read(&command)) {
    if (!on_command_ || !on_command_(*this, command)) Follow(command);
    absl::MutexLock lock(&mutex_);
    ++counts_[command.command_case()];
  }
  const grpc::Status status = stream_->Finish();
  absl::MutexLock lock(&mutex_);
  end_ = status;
  ended_ = true;
}

void ScriptedWorker::Follow(const v1::AttachResponse& command) {
  v1::AttachRequest answer;
  switch (command.command_case()) {
    case v1::AttachResponse::kAssignState:
      *answer.mutable_manifest_changed()->mutable_manifest() =
          ManifestOf(command.assign_state().assignment());
      return Send(answer);
    case v1::AttachResponse::kPrepare:
      FetchProgram(command.prepare());
      next_window_ = 0;
      target_ = command.prepare().target();
      *answer.mutable_prepared()->mutable_attempt() = command.prepare().attempt();
      return Send(answer);
    case v1::AttachResponse::kGrant:
      return SendWindowDone(command.grant());
    case v1::AttachResponse::kVerify:
      *answer.mutable_verified()->mutable_attempt() = command.verify().attempt();
      return Send(answer);
    case v1::AttachResponse::kCommit:
      *answer.mutable_committed()->mutable_attempt() = command.commit().attempt();
      if (!target_.shards().empty()) {
        *answer.mutable_committed()->mutable_manifest() = ManifestOf(target_);
        answer.mutable_committed()->mutable_manifest()->set_execution(
            command.commit().attempt().execution());
      }
      return Send(answer);
    case v1::AttachResponse::kRetire:
      answer.mutable_retired()->set_state(command.retire().state());
      answer.mutable_retired()->set_state_uid(command.retire().state_uid());
      answer.mutable_retired()->set_generation(command.retire().generation());
      return Send(answer);
    case v1::AttachResponse::kAbort:
      *answer.mutable_quiesced()->mutable_attempt() = command.abort().attempt();
      return Send(answer);
    default:
      return;
  }
}

void ScriptedWorker::FetchProgram(const v1::Prepare& prepare) {
  grpc::ClientContext context;
  v1::GetHostProgramRequest request;
  request.set_plan(prepare.plan());
  request.set_host(identity_.host());
  auto reader = v1::PlanService::NewStub(channel_)->GetHostProgram(&context, request);
  v1::HostProgram chunk, merged;
  while (reader->Read(&chunk)) merged.MergeFrom(chunk);
  const bool ended_well = reader->Finish().ok() && merged.fingerprint() == prepare.fingerprint() &&
                          merged.plan_digest() == prepare.plan_digest() &&
                          merged.plan_digest().size() == 16;
  const absl::StatusOr<proto::NamedProgram> program = proto::ReadProgram(merged);
  int64_t operations = 0;
  if (program.ok()) {
    planner::ForEachTransfer(program->program, [&](const planner::Transfer&) {
      ++operations;
      return true;
    });
  }
  absl::MutexLock lock(&mutex_);
  operations_ = ended_well && program.ok() ? operations_ + operations : -1;
}

void ScriptedWorker::SendWindowDone(const v1::Grant& grant) {
  for (; next_window_ < grant.until(); ++next_window_) {
    v1::AttachRequest answer;
    *answer.mutable_window_done()->mutable_attempt() = grant.attempt();
    answer.mutable_window_done()->set_window(next_window_);
    answer.mutable_window_done()->set_received_bytes(1000 * (next_window_ + 1));
    Send(answer);
  }
}

int ScriptedWorker::CommandCount(v1::AttachResponse::CommandCase kind) {
  absl::MutexLock lock(&mutex_);
  return counts_[kind];
}

bool ScriptedWorker::Await(v1::AttachResponse::CommandCase kind, int count) {
  absl::MutexLock lock(&mutex_);
  auto reached = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return counts_[kind] >= count; };
  return mutex_.AwaitWithTimeout(absl::Condition(&reached), absl::Seconds(10));
}

grpc::Status ScriptedWorker::AwaitEnd() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&ended_));
  return end_;
}

int64_t ScriptedWorker::operations() {
  absl::MutexLock lock(&mutex_);
  return operations_;
}

v1::Register WorkerIdentity(const std::string& name, int64_t first_device, int devices,
                            int process) {
  v1::Register identity;
  identity.set_host(name);
  identity.set_host_secret(std::string(31, '!') + name.substr(0, 1));
  std::string nonce(16, '!');
  nonce.back() = static_cast<char>('0' + process);
  identity.set_process_nonce(nonce);
  for (int i = 0; i < devices; ++i) identity.add_devices()->set_id(first_device + i);
  v1::DataAddress& address = *identity.add_data_addresses();
  address.set_transport("none");
  address.set_address(name);
  identity.set_nics(1);
  identity.set_nic_bytes_per_second(1e9);
  identity.set_fabric_bytes_per_second(1e11);
  return identity;
}

}  // namespace remesh::server
