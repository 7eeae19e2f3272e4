// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/server/model_worker.h"

#include <algorithm>

namespace remesh::server {
namespace {

// A secret or nonce of that many bytes.
std::string Bytes(const std::string& host, uint64_t number, size_t size) {
  std::string bytes = host + " " + std::to_string(number);
  bytes.resize(size, '.');
  return bytes;
}

// As trainers or executions fill them first.
std::vector<ModelWorker::Shard> ShardsOf(const v1::Assignment& assignment) {
  std::vector<ModelWorker::Shard> shards;
  for (const v1::ShardSpec& shard : assignment.shards()) {
    shards.push_back({.lo = shard.box().lo(0), .hi = shard.box().hi(0), .content = ""});
  }
  return shards;
}

std::set<std::string> ContentsOf(const ModelWorker::Held& held) {
  std::set<std::string> contents;
  for (const ModelWorker::Shard& shard : held.shards) contents.insert(shard.content);
  return contents;
}

}  // namespace

v1::StateManifest ModelWorker::Manifest(const Key& key) const {
  const Held& held = held_.at(key);
  v1::StateManifest manifest;
  manifest.set_state(key.first);
  manifest.set_state_uid(held.state_uid);
  manifest.set_generation(key.second);
  manifest.set_phase(held.phase);
  manifest.set_execution(held.execution);
  const auto shards = static_cast<int64_t>(held.shards.size());
  manifest.set_total_shards(shards);
  manifest.set_sealed_shards(held.phase == v1::SHARD_PHASE_BUILDING ? 0 : shards);
  manifest.set_write(held.write);
  return manifest;
}

v1::Register ModelWorker::Registration() const {
  v1::Register message;
  message.set_host(host_);
  message.set_host_secret(Bytes(host_, secret_, 32));
  message.set_process_nonce(Bytes(host_, nonce_, 16));
  message.set_join_token("token");
  message.set_incarnation(incarnation_);
  message.set_last_incarnation(last_incarnation_);
  message.add_devices()->set_id(device_);
  message.add_data_addresses()->set_transport("tcp");
  if (has_nccl_) message.add_data_addresses()->set_transport("nccl");
  message.set_nics(1);
  message.set_nic_bytes_per_second(1e9);
  message.set_fabric_bytes_per_second(1e10);
  message.set_supports_write_once(true);
  // Workers of several releases, of which a host may have another in its next life.
  message.set_supports_short_prepare(incarnation_ % 3 != 0);
  message.set_supports_short_assign_state(incarnation_ % 2 == 0);
  message.set_highest_epoch(highest_epoch_);
  *message.mutable_position() = position_;
  for (const auto& [key, held] : held_) *message.add_manifests() = Manifest(key);
  for (const auto& [execution, attempt] : attempts_) {
    message.add_attempts()->set_execution(execution);
    message.mutable_attempts()->rbegin()->set_attempt(1);
  }
  return message;
}

std::set<Part> ModelWorker::parts(bool with_pending) const {
  std::set<Part> parts;
  for (const auto& [key, held] : held_) {
    if (held.pending() && !with_pending) continue;
    parts.insert(
        {.state_uid = held.state_uid, .generation = key.second, .execution = held.execution});
  }
  return parts;
}

std::set<std::string> ModelWorker::attempts() const {
  std::set<std::string> executions;
  for (const auto& [execution, attempt] : attempts_) executions.insert(execution);
  return executions;
}

std::set<std::string> ModelWorker::SourceOf(const std::string& execution) const {
  const auto attempt = attempts_.find(execution);
  return attempt == attempts_.end() ? std::set<std::string>() : attempt->second.source;
}

const std::pair<const ModelWorker::Key, ModelWorker::Held>* ModelWorker::Newest(
    const std::string& state) const {
  const std::pair<const Key, Held>* newest = nullptr;
  for (const auto& one : held_) {
    if (one.first.first == state && !one.second.pending()) newest = &one;
  }
  return newest;
}

bool ModelWorker::moves(const std::string& state_uid) const {
  return std::any_of(attempts_.begin(), attempts_.end(),
                     [&](const auto& attempt) { return attempt.second.state_uid == state_uid; });
}

// Null while the state moves here, and if it is written once.
ModelWorker::Held* ModelWorker::Writable(const std::string& state) {
  const auto* newest = Newest(state);
  if (newest == nullptr || newest->second.write_once) return nullptr;
  if (moves(newest->second.state_uid)) return nullptr;
  return &held_.at(newest->first);
}

void ModelWorker::Fill(Held& held, const std::string& write) const {
  for (Shard& shard : held.shards) shard.content = write;
  if (!ignores_writes_) held.write = write;
}

void ModelWorker::Unseal(const std::string& state, const std::string& write) {
  Held* held = Writable(state);
  if (held == nullptr) return;
  held->phase = v1::SHARD_PHASE_BUILDING;
  Fill(*held, write);
  SendChanged(state);
}

void ModelWorker::Seal(const std::string& state, const std::string& write) {
  Held* held = Writable(state);
  if (held == nullptr) return;
  const bool joins = held->phase == v1::SHARD_PHASE_READY;
  if (!joins && !ignores_writes_ && held->write != write) return;
  held->phase = v1::SHARD_PHASE_READY;
  if (joins) Fill(*held, write);
  SendChanged(state);
}

void ModelWorker::SendChanged(const std::string& state) {
  v1::AttachRequest changed;
  *changed.mutable_manifest_changed()->mutable_manifest() = Manifest(Newest(state)->first);
  callbacks_.send(changed);
}

void ModelWorker::OnCommand(const v1::AttachResponse& command) {
  if (command.epoch() < highest_epoch_) callbacks_.violation(host_ + ": an older epoch commands");
  highest_epoch_ = std::max<uint64_t>(highest_epoch_, command.epoch());
  if (command.has_position()) position_ = command.position();
  switch (command.command_case()) {
    case v1::AttachResponse::kWelcome:
      if (command.welcome().incarnation() < last_incarnation_) {
        callbacks_.violation(host_ + ": its incarnation fell");
      }
      incarnation_ = last_incarnation_ = command.welcome().incarnation();
      return;
    case v1::AttachResponse::kAssignState:
      return Assign(command.assign_state().assignment());
    case v1::AttachResponse::kForgetState:
      return Forget(command.forget_state());
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
      return Retire(command.retire());
    case v1::AttachResponse::kDropCommunicators:
      if (communicators_ == command.drop_communicators().name()) communicators_.clear();
      return;
    default:
      return;
  }
}

void ModelWorker::Forget(const v1::ForgetState& forget) {
  std::erase_if(held_, [&](const auto& held) {
    return held.first.first == forget.state() && held.second.state_uid == forget.state_uid();
  });
  Unassign(forget.state(), forget.state_uid());
  std::erase_if(attempts_, [&](const auto& attempt) {
    return attempt.second.state_uid == forget.state_uid();
  });
  v1::AttachRequest answer;
  answer.mutable_forgotten()->set_state(forget.state());
  answer.mutable_forgotten()->set_state_uid(forget.state_uid());
  callbacks_.send(answer);
  Take(forget.state());
}

void ModelWorker::Retire(const v1::Retire& retire) {
  const auto held = held_.find({retire.state(), retire.generation()});
  if (held != held_.end() && held->second.state_uid == retire.state_uid()) held_.erase(held);
  if (retire.generation() == 1) Unassign(retire.state(), retire.state_uid());
  v1::AttachRequest answer;
  answer.mutable_retired()->set_state(retire.state());
  answer.mutable_retired()->set_state_uid(retire.state_uid());
  answer.mutable_retired()->set_generation(retire.generation());
  callbacks_.send(answer);
  Take(retire.state());
}

void ModelWorker::Assign(const v1::Assignment& assignment) {
  assigned_[assignment.state()] = assignment;
  Take(assignment.state());
}

// What trainers wrote first is over.
void ModelWorker::Unassign(const std::string& state, const std::string& state_uid) {
  const auto assigned = assigned_.find(state);
  if (assigned != assigned_.end() && assigned->second.state_uid() == state_uid) {
    assigned_.erase(assigned);
  }
}

// Two states of one name do not lie beside each other: the later one waits until the other is gone.
void ModelWorker::Take(const std::string& state) {
  const auto assigned = assigned_.find(state);
  if (assigned == assigned_.end() || assigned->second.committed()) return;
  const v1::Assignment& assignment = assigned->second;
  const Key key = {state, assignment.generation()};
  const bool taken = std::any_of(held_.begin(), held_.end(), [&](const auto& held) {
    const bool same = held.second.state_uid == assignment.state_uid();
    return held.first.first == state && (!same || !held.second.pending());
  });
  if (taken) return;
  callbacks_.filling(assignment.state_uid());
  held_[key] = {.phase = v1::SHARD_PHASE_READY,
                .execution = "",
                .shards = ShardsOf(assignment),
                .state_uid = assignment.state_uid(),
                .write_once = assignment.write_once()};
  v1::AttachRequest answer;
  *answer.mutable_manifest_changed()->mutable_manifest() = Manifest(key);
  callbacks_.send(answer);
}

void ModelWorker::Fail(const v1::AttemptId& attempt, const std::string& why) {
  v1::AttachRequest answer;
  *answer.mutable_failed()->mutable_attempt() = attempt;
  answer.mutable_failed()->mutable_error()->set_code(9);
  answer.mutable_failed()->mutable_error()->set_message(why);
  callbacks_.send(answer);
}

void ModelWorker::Prepare(const v1::Prepare& prepare) {
  const v1::Assignment& target = prepare.target();
  const std::string& execution = prepare.attempt().execution();
  if (!attempts_.empty()) return Fail(prepare.attempt(), "another attempt is here");
  auto source = held_.find({target.state(), prepare.source_generation()});
  if (source != held_.end() && source->second.phase != v1::SHARD_PHASE_READY) {
    return Fail(prepare.attempt(), "the source is not ready");
  }
  if (source != held_.end() && source->second.state_uid != target.state_uid()) {
    return Fail(prepare.attempt(), "another state of the name left shards here");
  }
  auto left = held_.find({target.state(), target.generation()});
  if (left != held_.end() && !left->second.pending()) {
    return Fail(prepare.attempt(), "the target generation is readable here");
  }
  if (callbacks_.fails()) return Fail(prepare.attempt(), "no memory");
  attempts_[execution] = {.state_uid = target.state_uid(),
                          .communicators = has_nccl_ ? prepare.communicators().name() : ""};
  if (source != held_.end()) attempts_[execution].source = ContentsOf(source->second);
  TakeCommunicators(prepare);
  if (!target.shards().empty()) {
    held_[{target.state(), target.generation()}] = {v1::SHARD_PHASE_PREPARED, execution,
                                                    ShardsOf(target), target.state_uid()};
    held_[{target.state(), target.generation()}].write_once = target.write_once();
  }
  v1::AttachRequest answer;
  *answer.mutable_prepared()->mutable_attempt() = prepare.attempt();
  callbacks_.send(answer);
}

// Those that are not there any more would fail the attempt: what ends them is known to the planner.
// (Only time ends them in earnest, which here stands still for them.)
void ModelWorker::TakeCommunicators(const v1::Prepare& prepare) {
  const v1::Communicators& named = prepare.communicators();
  const auto with_nccl = std::ranges::count_if(prepare.peers(), [](const v1::PeerEntry& peer) {
    return std::ranges::any_of(peer.data_addresses(),
                               [](const auto& address) { return address.transport() == "nccl"; });
  });
  // Where some hosts have none, they are named only if NCCL has something to carry.
  const bool may_be_unnamed = with_nccl < 2 || with_nccl < prepare.peers_size();
  const bool may_be_named = with_nccl > 1;
  if (!(named.name().empty() ? may_be_unnamed : may_be_named)) {
    callbacks_.violation(host_ + ": of " + std::to_string(with_nccl) +
                         " hosts with NCCL, communicators named \"" + named.name() + "\"");
  }
  if (named.name().empty() || !has_nccl_) return;
  if (named.reuse() != (communicators_ == named.name())) {
    callbacks_.violation(host_ + ": told to " + (named.reuse() ? "reuse" : "make") +
                         " communicators, and keeps " + communicators_);
  }
  communicators_.clear();
  reused_ += named.reuse() ? 1 : 0;
}

void ModelWorker::Grant(const v1::Grant& grant) {
  auto attempt = attempts_.find(grant.attempt().execution());
  if (attempt == attempts_.end()) return;
  if (callbacks_.fails()) return Fail(grant.attempt(), "a link broke");
  for (int32_t& done = attempt->second.windows_done; done < grant.until(); ++done) {
    v1::AttachRequest answer;
    *answer.mutable_window_done()->mutable_attempt() = grant.attempt();
    answer.mutable_window_done()->set_window(done);
    callbacks_.send(answer);
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
  callbacks_.send(answer);
}

void ModelWorker::Commit(const v1::Commit& commit) {
  callbacks_.committing(commit);
  auto held = held_.find({commit.state(), commit.generation()});
  const bool written = held != held_.end() && held->second.state_uid == commit.state_uid() &&
                       held->second.execution == commit.attempt().execution();
  if (!written) held = held_.end();  // another state's, or another execution's
  if (held != held_.end() && callbacks_.fails()) {
    return Fail(commit.attempt(), "the manifest cannot be written");
  }
  Unassign(commit.state(), commit.state_uid());
  const auto attempt = attempts_.find(commit.attempt().execution());
  const bool known = attempt != attempts_.end();
  const std::string kept = known ? attempt->second.communicators : "";
  if (known) attempts_.erase(attempt);
  if (held == held_.end()) {
    if (!known) return Fail(commit.attempt(), "nothing is verified here");
  } else if (held->second.phase == v1::SHARD_PHASE_PREPARED) {
    callbacks_.violation(host_ + ": told to commit what is not verified");
  } else if (held->second.phase == v1::SHARD_PHASE_VERIFIED) {
    held->second.phase = v1::SHARD_PHASE_READY;
  }
  v1::AttachRequest answer;
  *answer.mutable_committed()->mutable_attempt() = commit.attempt();
  if (held != held_.end()) *answer.mutable_committed()->mutable_manifest() = Manifest(held->first);
  if (!kept.empty()) {
    communicators_ = kept;
    answer.mutable_committed()->mutable_communicators()->set_name(kept);
    answer.mutable_committed()->mutable_communicators()->mutable_kept_for()->set_seconds(600);
  }
  callbacks_.send(answer);
}

void ModelWorker::Abort(const v1::Abort& abort) {
  attempts_.erase(abort.attempt().execution());
  auto held = held_.find({abort.state(), abort.generation()});
  if (held != held_.end() && held->second.execution == abort.attempt().execution()) {
    if (held->second.pending() || abort.even_committed()) held_.erase(held);
  }
  v1::AttachRequest answer;
  *answer.mutable_quiesced()->mutable_attempt() = abort.attempt();
  callbacks_.send(answer);
  Take(abort.state());
}

}  // namespace remesh::server
