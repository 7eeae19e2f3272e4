// SPDX-License-Identifier: Apache-2.0
// States that are written once, and the laws of that: what was committed is never filled again,
// never becomes BUILDING and keeps its step, until the journal goes back.
#include "absl/strings/str_cat.h"
#include "tests/simulation/server/simulation.h"

namespace remesh::server {

void Simulation::NoteCommitted(const std::string& state_uid) {
  if (committed_.insert(state_uid).second) ++writes_committed_;
}

// Also what is said of later generations tells that the first was committed.
void Simulation::NoteCommitted(const v1::AttachResponse& command) {
  if (command.has_commit_write()) NoteCommitted(command.commit_write().state_uid());
  const v1::Assignment& assigned = command.assign_state().assignment();
  if (assigned.write_once() && assigned.committed()) NoteCommitted(assigned.state_uid());
}

void Simulation::CheckFill(const std::string& host, const std::string& state_uid) {
  if (!committed_.contains(state_uid)) return;
  Violate(absl::StrCat(host, " fills shards of ", state_uid, ", which is written and committed"));
}

void Simulation::CheckOnce(const v1::State& state) {
  if (!state.write_once()) return;
  if (state.phase() == v1::State::READY) NoteCommitted(state.uid());
  if (state.phase() != v1::State::BUILDING || !committed_.contains(state.uid())) return;
  Violate(absl::StrCat(state.name(), " is BUILDING again, though it was committed"));
}

// Whether the journal may still lack what keeps the state from being READY.
bool Simulation::AwaitsJournal(const v1::State& state) const {
  if (state.write_once() && !committed_.contains(state.uid())) return true;
  const auto steps = steps_.find(state.uid());
  return steps != steps_.end() && !steps->second.unanswered.empty();
}

void Simulation::AskToUpdate(const std::string& state) {
  const std::string uid = uids_.at(state);
  const auto steps = steps_.find(uid);
  if (steps == steps_.end()) return;  // what its step is, is not known here
  v1::UpdateStateRequest update;
  update.set_name(state);
  update.set_uid(uid);
  const int64_t step = ++writes_;
  update.set_step(step);
  steps->second.unanswered.insert(step);
  const CallId id = next_call_++;
  calls_[id] = [this, uid, step](const absl::StatusOr<Reply>& reply) {
    Steps& of = steps_[uid];
    of.unanswered.erase(step);
    if (!reply.ok()) return;
    of.answered = step;
    of.unanswered.erase(of.unanswered.begin(), of.unanswered.lower_bound(step));
    ++operated_["UpdateStateRequest"];
  };
  Handle(Call{.id = id, .request = std::move(update)});
}

// The step is that of the last update that was answered OK, or of one whose answer was lost.
void Simulation::CheckStep(const v1::State& state) {
  const auto [found, added] = steps_.try_emplace(state.uid(), Steps{.answered = state.step()});
  Steps& steps = found->second;
  if (steps.once.value_or(state.step()) != state.step()) {
    Violate(absl::StrCat(state.name(), " was READY at step ", *steps.once, " and is at ",
                         state.step()));
  }
  const bool explained = state.step() == steps.answered || steps.unanswered.contains(state.step());
  if (state.phase() != v1::State::READY) return;
  if (state.write_once()) steps.once = state.step();
  if (explained) return;
  Violate(absl::StrCat(state.name(), " is READY at step ", state.step(), ", and ", steps.answered,
                       " was set last"));
}

// The server, had it a bug.
void Simulation::PlantInRecords(std::vector<Record>& records) const {
  if (options_.planted != Planted::kCommitNotJournaled) return;
  std::erase_if(records, [](const Record& record) {
    return record.bytes.has_value() && record.key.starts_with("write_committed/");
  });
}

void Simulation::PlantInCommand(v1::AttachResponse& command) const {
  if (options_.planted != Planted::kOnlyMovesMustExist || !command.has_assign_state()) return;
  v1::Assignment& assignment = *command.mutable_assign_state()->mutable_assignment();
  assignment.set_committed(assignment.generation() > 1);
}

}  // namespace remesh::server
