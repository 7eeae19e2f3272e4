// SPDX-License-Identifier: Apache-2.0
#include "worker/local/state_buffers.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "worker/local/state_errors.h"

namespace remesh::worker {

StateBuffers::StateBuffers(std::string host, BufferStore* store, FilesQueue* files,
                           FilesQueue* loans, Hooks hooks)
    : host_(std::move(host)),
      store_(store),
      files_(files),
      loans_(loans),
      hooks_(std::move(hooks)) {}

bool StateBuffers::Assign(const v1::Assignment& assignment) {
  if (!assigned_.Assign(assignment)) return false;
  // No trainer has seen the buffers that are still being reserved.
  const auto it = reserving_.find(assignment.state());
  if (it != reserving_.end() && it->second.state_uid != assignment.state_uid())
    GiveUp(assignment.state());
  const v1::Assignment& known = *assigned_.Find(assignment.state());
  if (known.write_once() && known.committed()) KeepCommitted(known);
  return true;
}

void StateBuffers::CommitWrite(const v1::CommitWrite& command) {
  assigned_.CommitWrite(command);
  v1::Assignment committed;
  committed.set_state(command.state());
  committed.set_state_uid(command.state_uid());
  committed.set_generation(command.generation());
  KeepCommitted(committed);
}

// Unsealed memory was given out after this host had lost what it had sealed. If that became
// readable, the state would hold something else than was committed.
void StateBuffers::KeepCommitted(const v1::Assignment& committed) {
  const std::string& state = committed.state();
  if (committed.generation() != kFirst) return;
  const auto reserving = reserving_.find(state);
  if (reserving != reserving_.end() && reserving->second.state_uid == committed.state_uid() &&
      assigned_.ToBuild(state) == nullptr) {
    GiveUp(state);
  }
  const Generation* held = store_->Find(state, kFirst);
  const bool of_it = held != nullptr && held->state_uid() == committed.state_uid();
  if (!of_it || held->pending() || !IsWrittenOnce(state)) return;
  if (!held->all_sealed()) return Give(held);
  // Without the note on disk, the next life of the worker learns it from its assignment.
  store_->NoteCommitted(state, kFirst).IgnoreError();
}

void StateBuffers::Announce(const std::string& state, int64_t generation) {
  if (const Generation* held = store_->Find(state, generation)) hooks_.changed(held->Summary());
}

void StateBuffers::WillForget(const std::string& state, const std::string& state_uid) {
  forgetting_.emplace(state, state_uid);
}

bool StateBuffers::Forget(const std::string& state, const std::string& state_uid) {
  assigned_.Forget(state, state_uid);
  store_->begun_writes().Drop(state, state_uid);
  for (const Generation* held : store_->ListOf(state)) {
    if (held->state_uid() == state_uid) store_->Drop(state, held->number());
  }
  store_->ForgetKept(state_uid);
  const auto reserving = reserving_.find(state);
  const bool reserved = reserving != reserving_.end() && reserving->second.state_uid == state_uid;
  if (reserved) {
    GiveUp(state);
  } else {
    forgetting_.erase({state, state_uid});
  }
  return !reserved;
}

void StateBuffers::GiveLost() {
  for (const Generation* held : store_->List()) {
    if (held->lost() && hooks_.moved_by(held->state()).empty()) Give(held);
  }
  for (auto& [state, reserving] : reserving_) {
    if (reserving.lease != nullptr && reserving.lease->ended()) reserving.job->Cancel();
  }
}

void StateBuffers::Close() {
  for (auto& [state, reserving] : reserving_) reserving.job->Cancel();
}

bool StateBuffers::IsWrittenOnce(const std::string& state) const {
  const v1::Assignment* const assigned = assigned_.Find(state);
  if (assigned != nullptr && assigned->write_once()) return true;
  const std::vector<const Generation*> all = store_->ListOf(state);
  return std::any_of(all.begin(), all.end(), [this](const Generation* held) {
    return assigned_.Current(*held) && held->manifest.assignment().write_once();
  });
}

std::optional<std::string> StateBuffers::UidOf(const std::string& state) const {
  if (const v1::Assignment* assigned = assigned_.Find(state)) return assigned->state_uid();
  if (const Generation* held = Newest(state); held != nullptr) return held->state_uid();
  return std::nullopt;
}

std::optional<Unanswered> StateBuffers::CheckUid(const std::string& state,
                                                 const std::string& asked) const {
  if (asked.empty()) return std::nullopt;
  const std::optional<std::string> known = UidOf(state);
  if (!known || *known == asked) return std::nullopt;
  return Unanswered{StateReplaced(state, *known, asked),
                    Awaited{.state = state, .what = Awaited::What::kState}};
}

bool StateBuffers::HasShards(const std::string& state) const {
  const Generation* newest = Newest(state);
  return newest != nullptr && newest->manifest.sealed_size() > 0;
}

const Generation* StateBuffers::Newest(const std::string& state) const {
  const Generation* newest = nullptr;
  for (const Generation* held : store_->ListOf(state)) {
    if (!held->pending() && assigned_.Current(*held)) newest = held;
  }
  return newest;
}

// Buffers of two states with the same name, or of two assignments of one state, must not coexist.
std::optional<Unanswered> StateBuffers::CheckNoneStale(const std::string& state) const {
  const v1::Assignment* const assigned = assigned_.Find(state);
  if (assigned == nullptr) return std::nullopt;
  for (const Generation* held : store_->ListOf(state)) {
    const std::string& uid = held->state_uid();
    if (!assigned_.Current(*held) && forgetting_.contains({state, uid}))
      return MemoryUnderWay(state);
    if (!assigned_.Current(*held)) return Unanswered{StaleShards(host_, state, uid), std::nullopt};
    if (held->number() == assigned->generation() && !held->pending() && !assigned->committed() &&
        !SameBuffers(held->manifest.assignment(), *assigned)) {
      return Unanswered{
          StateError(absl::StatusCode::kFailedPrecondition, "STALE_SHARDS", state,
                     "has buffers of another assignment on this host: Release frees them",
                     {{"state_uid", uid}}),
          std::nullopt};
    }
  }
  return std::nullopt;
}

Outcome<const Generation*> StateBuffers::NewestOrReserve(const std::string& state) {
  if (auto stale = CheckNoneStale(state)) return *std::move(stale);
  if (const Generation* held = Newest(state); held != nullptr) return held;
  if (reserving_.contains(state)) return MemoryUnderWay(state);
  if (!assigned_.Reported(state)) return StateNotFound(state);
  const v1::Assignment* assignment = assigned_.ToBuild(state);
  if (assignment == nullptr) {
    return StateError(absl::StatusCode::kFailedPrecondition, "STATE_COMMITTED", state,
                      "is committed, and its buffers are not on this host");
  }
  RETURN_IF_ERROR(Reserve(*assignment));
  return MemoryUnderWay(state);
}

absl::Status StateBuffers::Reserve(const v1::Assignment& assignment) {
  ASSIGN_OR_RETURN(Generation begun, store_->Begin(assignment, v1::SHARD_PHASE_BUILDING, {}));
  const auto write = store_->begun_writes().Find(assignment.state(), assignment.state_uid());
  begun.manifest.set_write(write.value_or(""));
  struct Filling {
    Generation generation;
    absl::Status filled = absl::CancelledError("reserving was given up");
  };
  auto filling = std::make_shared<Filling>(Filling{std::move(begun)});
  reserving_[assignment.state()] = {
      assignment.state_uid(),
      files_->Post(
          [this, filling](const std::atomic<bool>& cancelled) {
            filling->filled = store_->Fill(filling->generation, &cancelled);
          },
          [this, filling] { Reserved(std::move(filling->generation), filling->filled); })};
  return absl::OkStatus();
}

void StateBuffers::Reserved(Generation generation, const absl::Status& filled) {
  const std::string state = generation.state();
  const std::string uid = generation.state_uid();
  const int64_t number = generation.number();
  absl::Status status = store_->Finish(std::move(generation), filled);
  const bool given_up = reserving_.extract(state).mapped().given_up;
  if (given_up) {
    if (status.ok()) store_->Drop(state, number);
    status = absl::OkStatus();  // waiting calls ask again
  } else if (status.ok()) {
    store_->begun_writes().Drop(state, uid);
    Announce(state, number);
  }
  hooks_.reserved(state, status);
}

void StateBuffers::GiveUp(const std::string& state) {
  Reserving& reserving = reserving_.at(state);
  reserving.given_up = true;
  reserving.job->Cancel();
}

void StateBuffers::Give(const Generation* held, const std::string& write) {
  v1::StateManifest gone = held->Summary();
  gone.set_phase(v1::SHARD_PHASE_BUILDING);
  gone.set_sealed_shards(0);
  gone.set_bytes(0);
  gone.set_write(write);
  store_->Drop(held->state(), held->number());
  hooks_.changed(gone);
}

}  // namespace remesh::worker
