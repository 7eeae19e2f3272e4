// SPDX-License-Identifier: Apache-2.0
// From a journal back to states and executions.
#include "absl/strings/str_cat.h"
#include "server/controller/controller.h"
#include "server/controller/proto_time.h"

namespace remesh {
namespace {

bool Ended(v1::Execution::Phase phase) {
  return phase == v1::Execution::SUCCEEDED || phase == v1::Execution::FAILED ||
         phase == v1::Execution::CANCELLED;
}

// Participants as far as Commit, Abort and Retire need to know them.
std::vector<Participant> ParticipantsOf(const v1::Execution& execution, const PlacedState* target) {
  std::vector<Participant> participants;
  for (const v1::HostProgress& progress : execution.hosts()) {
    Participant& participant = participants.emplace_back();
    participant.host = progress.host();
    if (target == nullptr) continue;
    if (auto part = target->hosts.find(progress.host()); part != target->hosts.end()) {
      participant.target = part->second.assignment;
    }
  }
  return participants;
}

}  // namespace

void Controller::RestoreState(const std::string& name, const RestoredState& restored) {
  StateEntry entry{.declared = restored.state,
                   .placed = restored.placed,
                   .request_id = restored.request_id,
                   .request_digest = restored.request_digest};
  entry.declared.clear_spec();
  // Whoever a state relies on has an entry; without one, the next worker of that name is taken for
  // it.
  for (const auto& [host, part] : entry.placed->hosts) {
    hosts_.try_emplace(host, HostEntry{.known = {}, .durable = true, .away_since = now_.steady});
  }
  states_.Add(std::move(entry));
}

void Controller::RestoreExecution(const v1::Execution& execution, const Restored& restored) {
  const std::string name = execution.name();
  const bool ended = Ended(execution.phase());
  StateEntry* state = states_.Find(execution.state());
  auto next = restored.next_states.find(execution.state());
  const bool committing = execution.phase() == v1::Execution::COMMITTING && state != nullptr &&
                          next != restored.next_states.end();
  const std::shared_ptr<const PlacedState> target = committing ? next->second : nullptr;

  ExecutionSpec spec{.attempt = {},
                     .fingerprint = "",
                     .quiesce_timeout = options_.quiesce_timeout,
                     .participants = ParticipantsOf(execution, target.get())};
  spec.attempt.set_execution(name);
  spec.attempt.set_attempt(1);
  ExecutionActions actions;
  moves_.emplace(name, Move{.execution = Execution::Restore(std::move(spec), execution, actions),
                            .target = target});
  if (auto digest = restored.start_digests.find(name); digest != restored.start_digests.end())
    moves_.at(name).request_digest = digest->second;
  by_age_[AgeKey(execution)] = name;
  if (!execution.request_id().empty()) {
    request_ids_[RequestKey(execution.state(), execution.state_uid(), execution.request_id())] =
        name;
  }
  if (ended || state == nullptr) return;
  state->execution = name;
  running_.insert(name);
  AddNote(absl::StrCat("found ", name, " in the journal, ",
                       v1::Execution::Phase_Name(execution.phase())));
  Apply(name, std::move(actions));
}

}  // namespace remesh
