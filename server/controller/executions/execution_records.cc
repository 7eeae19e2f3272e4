// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/execution_records.h"

#include <utility>

#include "server/controller/values/records.h"

namespace remesh::server {
namespace {

// The participants of a restored execution, as far as Commit, Abort and Retire need them.
std::vector<Participant> ParticipantsOf(const v1::Execution& execution,
                                        const std::shared_ptr<const PlacedState>& target) {
  std::vector<Participant> participants;
  for (const v1::HostProgress& progress : execution.hosts()) {
    Participant& participant = participants.emplace_back();
    participant.host = progress.host();
    if (target != nullptr && target->hosts.contains(progress.host())) participant.target = target;
  }
  return participants;
}

}  // namespace

ExecutionEntry RestoredEntry(const v1::Execution& execution, const Restored& restored,
                             bool state_exists, Timestamp quiesce_timeout, ExecutionActions& out) {
  const std::string& name = execution.name();
  const auto next = restored.next_states.find(execution.state());
  const bool committing = execution.phase() == v1::Execution::COMMITTING && state_exists &&
                          next != restored.next_states.end();
  const std::shared_ptr<const PlacedState> target = committing ? next->second : nullptr;
  ExecutionSpec spec{.attempt = {},
                     .fingerprint = "",
                     .quiesce_timeout = quiesce_timeout,
                     .participants = ParticipantsOf(execution, target)};
  spec.attempt.set_execution(name);
  spec.attempt.set_attempt(1);
  ExecutionEntry entry{.execution = Execution::Restore(std::move(spec), execution, out),
                       .target = target};
  const auto digest = restored.start_digests.find(name);
  if (digest != restored.start_digests.end()) entry.request_digest = digest->second;
  return entry;
}

int64_t AbandonedAfter(const StateEntry& state, const v1::Execution& execution, Save what) {
  const bool given_up = what == Save::kFailure && execution.phase() == v1::Execution::COMMITTING;
  return given_up ? execution.target_generation() : state.declared.abandoned_generation();
}

std::vector<Record> RecordsOf(const ExecutionEntry& entry, const StateEntry& state, Save what,
                              Moment now) {
  const v1::Execution saved = entry.execution.ToSave(what, now);
  std::vector<Record> records = {ExecutionRecord(saved)};
  if (const int64_t abandoned = AbandonedAfter(state, entry.execution.resource(), what);
      abandoned != state.declared.abandoned_generation()) {
    v1::State kept = state.declared;
    kept.set_abandoned_generation(abandoned);
    records.push_back(StateRecord(kept, state.placed->spec));
    records.push_back(NoNextStateRecord(saved.state()));
  }
  if (what != Save::kFailure) {
    v1::State next = state.declared;
    next.set_generation(saved.target_generation());
    const v1::StateSpec& spec = entry.target->spec;
    records.push_back(what == Save::kDecision ? NextStateRecord(next, spec)
                                              : StateRecord(next, spec));
    if (what == Save::kSuccess) records.push_back(NoNextStateRecord(saved.state()));
  }
  return records;
}

}  // namespace remesh::server
