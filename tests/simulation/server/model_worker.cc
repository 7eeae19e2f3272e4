// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/server/model_worker.h"

namespace remesh {
namespace {

bool Pending(v1::ShardPhase phase) {
  return phase == v1::SHARD_PHASE_PREPARED || phase == v1::SHARD_PHASE_VERIFIED;
}

}  // namespace

v1::Register ModelWorker::Registration() const {
  v1::Register message;
  message.set_host(host_);
  message.set_incarnation(incarnation_);
  message.add_devices()->set_id(device_);
  message.set_nics(1);
  message.set_nic_bytes_per_second(1e9);
  message.set_fabric_bytes_per_second(1e10);
  message.set_highest_epoch(highest_epoch_);
  for (const auto& [key, held] : held_) {
    v1::StateManifest& manifest = *message.add_manifests();
    manifest.set_state(key.first);
    manifest.set_state_uid(held.state_uid);
    manifest.set_generation(key.second);
    manifest.set_phase(held.phase);
    if (Pending(held.phase)) manifest.set_execution(held.execution);
    manifest.set_total_shards(held.shards);
    manifest.set_sealed_shards(held.shards);
  }
  return message;
}

void ModelWorker::Obey(const v1::AttachResponse& command) {
  if (command.epoch() < highest_epoch_) callbacks_.violation(host_ + ": an older epoch commands");
  highest_epoch_ = std::max<uint64_t>(highest_epoch_, command.epoch());
  v1::AttachRequest answer;
  switch (command.command_case()) {
    case v1::AttachResponse::kAssignState:
      return Assign(command.assign_state().assignment());
    case v1::AttachResponse::kForgetState:
      std::erase_if(held_, [&](const auto& held) {
        return held.first.first == command.forget_state().state() &&
               held.second.state_uid == command.forget_state().state_uid();
      });
      return;
    case v1::AttachResponse::kPrepare:
      return Prepare(command.prepare());
    case v1::AttachResponse::kGrant:
      return Grant(command.grant());
    case v1::AttachResponse::kVerify:
      return Verify(command.verify());
    case v1::AttachResponse::kCommit:
      return Commit(command.commit());
    case v1::AttachResponse::kAbort:
      return Abort(command.abort());
    case v1::AttachResponse::kRetire:
      callbacks_.retiring(command.retire());
      held_.erase({command.retire().state(), command.retire().generation()});
      answer.mutable_retired()->set_state(command.retire().state());
      answer.mutable_retired()->set_generation(command.retire().generation());
      return callbacks_.say(answer);
    default:
      return;
  }
}

void ModelWorker::Assign(const v1::Assignment& assignment) {
  const Key key = {assignment.state(), assignment.generation()};
  if (assignment.committed() || held_.contains(key)) return;
  held_[key] = {.phase = v1::SHARD_PHASE_READY,
                .execution = "",
                .shards = assignment.shards_size(),
                .state_uid = assignment.state_uid()};
  v1::AttachRequest answer;
  v1::StateManifest& manifest = *answer.mutable_manifest_changed()->mutable_manifest();
  manifest.set_state(assignment.state());
  manifest.set_state_uid(assignment.state_uid());
  manifest.set_generation(assignment.generation());
  manifest.set_phase(v1::SHARD_PHASE_READY);
  manifest.set_total_shards(assignment.shards_size());
  manifest.set_sealed_shards(assignment.shards_size());
  callbacks_.say(answer);
}

void ModelWorker::Fail(const v1::AttemptId& attempt, const std::string& why) {
  v1::AttachRequest answer;
  *answer.mutable_failed()->mutable_attempt() = attempt;
  answer.mutable_failed()->mutable_error()->set_code(9);
  answer.mutable_failed()->mutable_error()->set_message(why);
  callbacks_.say(answer);
}

void ModelWorker::Prepare(const v1::Prepare& prepare) {
  const v1::Assignment& target = prepare.target();
  const std::string& execution = prepare.attempt().execution();
  if (!attempts_.empty()) return Fail(prepare.attempt(), "another attempt is here");
  auto source = held_.find({target.state(), prepare.source_generation()});
  if (source != held_.end() && source->second.phase != v1::SHARD_PHASE_READY) {
    return Fail(prepare.attempt(), "the source is not ready");
  }
  if (source != held_.end() && source->second.state_uid != target.state_uid())
    callbacks_.violation(host_ + ": told to move what another state of the same name left");
  auto left = held_.find({target.state(), target.generation()});
  if (left != held_.end() && !Pending(left->second.phase))
    callbacks_.violation(host_ + ": prepared over a readable generation");
  if (callbacks_.fails()) return Fail(prepare.attempt(), "no memory");
  attempts_[execution] = {};
  if (!target.shards().empty()) {
    held_[{target.state(), target.generation()}] = {v1::SHARD_PHASE_PREPARED, execution,
                                                    target.shards_size(), target.state_uid()};
  }
  v1::AttachRequest answer;
  *answer.mutable_prepared()->mutable_attempt() = prepare.attempt();
  callbacks_.say(answer);
}

void ModelWorker::Grant(const v1::Grant& grant) {
  auto attempt = attempts_.find(grant.attempt().execution());
  if (attempt == attempts_.end()) return;
  if (callbacks_.fails()) return Fail(grant.attempt(), "a link broke");
  for (int32_t& done = attempt->second.windows_done; done < grant.until(); ++done) {
    v1::AttachRequest answer;
    *answer.mutable_window_done()->mutable_attempt() = grant.attempt();
    answer.mutable_window_done()->set_window(done);
    callbacks_.say(answer);
  }
}

void ModelWorker::Verify(const v1::Verify& verify) {
  if (!attempts_.contains(verify.attempt().execution())) return;
  if (callbacks_.fails()) return Fail(verify.attempt(), "the source was modified");
  for (auto& [key, held] : held_) {
    if (held.phase == v1::SHARD_PHASE_PREPARED && held.execution == verify.attempt().execution()) {
      held.phase = v1::SHARD_PHASE_VERIFIED;
    }
  }
  v1::AttachRequest answer;
  *answer.mutable_verified()->mutable_attempt() = verify.attempt();
  callbacks_.say(answer);
}

void ModelWorker::Commit(const v1::Commit& commit) {
  callbacks_.committing(commit);
  if (callbacks_.fails()) return Fail(commit.attempt(), "the manifest cannot be written");
  const bool known = attempts_.erase(commit.attempt().execution()) > 0;
  auto held = held_.find({commit.state(), commit.generation()});
  if (held == held_.end()) {
    if (!known) return Fail(commit.attempt(), "nothing is verified here");
  } else if (held->second.phase == v1::SHARD_PHASE_PREPARED) {
    callbacks_.violation(host_ + ": told to commit what is not verified");
  } else {
    held->second.phase = v1::SHARD_PHASE_READY;
  }
  v1::AttachRequest answer;
  *answer.mutable_committed()->mutable_attempt() = commit.attempt();
  callbacks_.say(answer);
}

void ModelWorker::Abort(const v1::Abort& abort) {
  attempts_.erase(abort.attempt().execution());
  auto held = held_.find({abort.state(), abort.generation()});
  if (held != held_.end() && held->second.execution == abort.attempt().execution()) {
    if (!Pending(held->second.phase))
      callbacks_.violation(host_ + ": told to abort what is committed");
    held_.erase(held);
  }
  v1::AttachRequest answer;
  *answer.mutable_quiesced()->mutable_attempt() = abort.attempt();
  callbacks_.say(answer);
}

}  // namespace remesh
