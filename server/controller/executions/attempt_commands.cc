// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/attempt_commands.h"

#include "base/error.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

// Names the state and generation in Commit and Abort, for workers that know nothing of the attempt.
template <typename Command>
void NameTarget(const v1::AttemptId& attempt, const v1::Execution& resource, Command& command) {
  *command.mutable_attempt() = attempt;
  command.set_state(resource.state());
  command.set_state_uid(resource.state_uid());
  command.set_generation(resource.target_generation());
}

// The participant's shards of the target, in columns if it takes the short form.
v1::Assignment TargetOf(const Participant& participant, bool takes_short) {
  if (!participant.receives()) return {};
  if (takes_short) return AssignmentInColumns(*participant.target, participant.host);
  return AssignmentOf(*participant.target, participant.host);
}

}  // namespace

v1::AttachResponse MakePrepare(const Preparation& preparation, int host) {
  const ExecutionSpec& spec = preparation.spec;
  const v1::Execution& resource = preparation.resource;
  v1::AttachResponse message;
  v1::Prepare& prepare = *message.mutable_prepare();
  *prepare.mutable_attempt() = spec.attempt;
  v1::Assignment& target = *prepare.mutable_target();
  target = TargetOf(spec.participants[host], preparation.peers.takes_short(host));
  target.set_state(resource.state());
  target.set_state_uid(resource.state_uid());
  target.set_generation(resource.target_generation());
  target.set_write_once(spec.write_once);
  prepare.set_source_generation(resource.source_generation());
  prepare.set_plan(resource.plan());
  prepare.set_fingerprint(spec.fingerprint);
  prepare.set_plan_digest(spec.plan_digest);
  preparation.peers.NameIn(prepare, host);
  prepare.set_windows(resource.windows());
  prepare.set_window_bytes(spec.window_bytes);
  return message;
}

size_t PrepareBytes(const Preparation& preparation, int host) {
  const size_t peers = preparation.peers.BytesOf(host);
  const Participant& participant = preparation.spec.participants[host];
  if (!participant.receives()) return peers;
  return peers + AssignmentBytes(*participant.target, participant.host);
}

v1::AttachResponse MakeGrant(const v1::AttemptId& attempt, int32_t until) {
  v1::AttachResponse message;
  *message.mutable_grant()->mutable_attempt() = attempt;
  message.mutable_grant()->set_until(until);
  return message;
}

v1::AttachResponse MakeVerify(const v1::AttemptId& attempt) {
  v1::AttachResponse message;
  *message.mutable_verify()->mutable_attempt() = attempt;
  return message;
}

v1::AttachResponse MakeCommit(const v1::AttemptId& attempt, const v1::Execution& resource) {
  v1::AttachResponse message;
  NameTarget(attempt, resource, *message.mutable_commit());
  return message;
}

v1::AttachResponse MakeAbort(const v1::AttemptId& attempt, const v1::Execution& resource) {
  v1::AttachResponse message;
  NameTarget(attempt, resource, *message.mutable_abort());
  const std::string reason = GetErrorInfo(service::StatusFromProto(resource.error())).reason;
  if (reason == "DIGEST_MISMATCH" || reason == "LINK_STALLED")
    *message.mutable_abort()->mutable_error() = resource.error();
  return message;
}

}  // namespace remesh::server
