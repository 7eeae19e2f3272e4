// SPDX-License-Identifier: Apache-2.0
#include "worker/local/state_buffers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "worker/local/shard_selection.h"
#include "worker/local/state_errors.h"
#include "worker/local/write_rules.h"
#include "worker/store/write_name.h"

namespace remesh::worker {
namespace {

constexpr int64_t kFirst = 1;  // the generation that trainers write

std::string ShardName(const Generation& held, int shard) {
  const v1::Assignment& assignment = held.manifest.assignment();
  const v1::ShardSpec& spec = assignment.shards(shard);
  return absl::StrCat(assignment.arrays(spec.array()).name(),
                      held.places.shards[shard].box.DebugString(), " on device ", spec.device());
}

}  // namespace

StateBuffers::StateBuffers(std::string host, BufferStore* store, FilesQueue* files,
                           FilesQueue* loans, Hooks hooks)
    : host_(std::move(host)),
      store_(store),
      files_(files),
      loans_(loans),
      hooks_(std::move(hooks)) {}

bool StateBuffers::Assign(const v1::Assignment& assignment) {
  v1::Assignment& known = assigned_[assignment.state()];
  earlier_.erase(assignment.state());
  const bool passed = passed_.erase(assignment.state()) > 0;
  if (!passed && known.shards().empty() && assignment.shards().empty() &&
      google::protobuf::util::MessageDifferencer::Equals(known, assignment)) {
    return false;
  }
  const bool stays_committed = known.write_once() && known.committed() &&
                               known.state_uid() == assignment.state_uid() &&
                               known.generation() == assignment.generation();
  known = assignment;
  if (stays_committed) known.set_committed(true);
  // No trainer has seen the buffers that are still being reserved.
  const auto it = reserving_.find(assignment.state());
  if (it != reserving_.end() && it->second.state_uid != assignment.state_uid())
    GiveUp(assignment.state());
  if (known.write_once() && known.committed()) KeepCommitted(known);
  return true;
}

void StateBuffers::CommitWrite(const v1::CommitWrite& command) {
  const auto it = assigned_.find(command.state());
  const bool assigned = it != assigned_.end() && it->second.write_once() &&
                        it->second.state_uid() == command.state_uid() &&
                        it->second.generation() == command.generation();
  if (assigned) it->second.set_committed(true);
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
      ToBuild(state) == nullptr) {
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

void StateBuffers::Committed(const std::string& state, const std::string& state_uid,
                             int64_t generation) {
  const auto it = assigned_.find(state);
  if (it == assigned_.end() || it->second.state_uid() != state_uid) return;
  int64_t& passed = passed_[state];
  passed = std::max(passed, generation);
}

void StateBuffers::Retired(const std::string& state, const std::string& state_uid,
                           int64_t generation) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Committed(state, state_uid, std::min(generation, kMax - 1) + 1);
}

void StateBuffers::TakenBack(const std::string& state, const std::string& state_uid,
                             int64_t generation) {
  const auto it = assigned_.find(state);
  const auto passed = passed_.find(state);
  if (it == assigned_.end() || it->second.state_uid() != state_uid) return;
  if (passed != passed_.end() && passed->second == generation) passed_.erase(passed);
}

const v1::Assignment* StateBuffers::ToBuild(const std::string& state) const {
  const auto it = assigned_.find(state);
  if (it == assigned_.end() || it->second.committed()) return nullptr;
  const auto passed = passed_.find(state);
  const bool over = passed != passed_.end() && passed->second > it->second.generation();
  return over ? nullptr : &it->second;
}

void StateBuffers::WillForget(const std::string& state, const std::string& state_uid) {
  forgetting_.emplace(state, state_uid);
}

bool StateBuffers::Forget(const std::string& state, const std::string& state_uid) {
  const auto it = assigned_.find(state);
  if (it != assigned_.end() && it->second.state_uid() == state_uid) {
    assigned_.erase(it);
    earlier_.erase(state);
    passed_.erase(state);
  }
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

const v1::Assignment* StateBuffers::AssignmentOf(const Generation& held) const {
  const auto it = assigned_.find(held.state());
  if (it == assigned_.end() || it->second.state_uid() != held.state_uid()) return nullptr;
  return &it->second;
}

bool StateBuffers::Current(const Generation& held) const {
  return !assigned_.contains(held.state()) || AssignmentOf(held) != nullptr;
}

bool StateBuffers::IsWrittenOnce(const std::string& state) const {
  const auto it = assigned_.find(state);
  if (it != assigned_.end() && it->second.write_once()) return true;
  const std::vector<const Generation*> all = store_->ListOf(state);
  return std::any_of(all.begin(), all.end(), [this](const Generation* held) {
    return Current(*held) && held->manifest.assignment().write_once();
  });
}

std::optional<std::string> StateBuffers::UidOf(const std::string& state) const {
  const auto it = assigned_.find(state);
  if (it != assigned_.end()) return it->second.state_uid();
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

void StateBuffers::OnWelcome() {
  std::erase_if(assigned_, [](const auto& entry) { return entry.second.shards().empty(); });
  std::erase_if(passed_, [this](const auto& entry) { return !assigned_.contains(entry.first); });
  for (const auto& [state, assignment] : assigned_) earlier_.insert(state);
}

std::optional<Generation> StateBuffers::Absent(const std::string& state) const {
  const auto it = assigned_.find(state);
  if (it == assigned_.end() || !it->second.shards().empty() || Newest(state) != nullptr)
    return std::nullopt;
  // The other hosts commit what is written once without waiting for calls here.
  const bool first = it->second.write_once() && it->second.generation() == kFirst;
  const bool late = first && it->second.committed() && !passed_.contains(state);
  if (!late && ToBuild(state) == nullptr) return std::nullopt;
  Generation nothing;
  *nothing.manifest.mutable_assignment() = it->second;
  return nothing;
}

std::optional<Generation> StateBuffers::AbsentGeneration(const std::string& state,
                                                         int64_t generation) const {
  const auto it = assigned_.find(state);
  if (it == assigned_.end() || !it->second.shards().empty() ||
      it->second.generation() != generation) {
    return std::nullopt;
  }
  if (it->second.write_once() && !it->second.committed()) return std::nullopt;
  const Generation* newest = Newest(state);
  if (newest != nullptr && newest->number() > generation) return std::nullopt;
  Generation nothing;
  *nothing.manifest.mutable_assignment() = it->second;
  return nothing;
}

bool StateBuffers::HasShards(const std::string& state) const {
  const Generation* newest = Newest(state);
  return newest != nullptr && newest->manifest.sealed_size() > 0;
}

bool StateBuffers::IsCommitted(const Generation& held) const {
  if (held.manifest.assignment().committed()) return true;
  const v1::Assignment* const assigned = AssignmentOf(held);
  return assigned != nullptr && assigned->committed() && assigned->generation() == held.number();
}

const Generation* StateBuffers::Newest(const std::string& state) const {
  const Generation* newest = nullptr;
  for (const Generation* held : store_->ListOf(state)) {
    if (!held->pending() && Current(*held)) newest = held;
  }
  return newest;
}

// Buffers of two states with the same name, or of two assignments of one state, must not coexist.
std::optional<Unanswered> StateBuffers::CheckNoneStale(const std::string& state) const {
  const auto it = assigned_.find(state);
  if (it == assigned_.end()) return std::nullopt;
  for (const Generation* held : store_->ListOf(state)) {
    const std::string& uid = held->state_uid();
    if (!Current(*held) && forgetting_.contains({state, uid})) return MemoryUnderWay(state);
    if (!Current(*held)) return Unanswered{StaleShards(host_, state, uid), std::nullopt};
    if (held->number() == it->second.generation() && !held->pending() && !it->second.committed() &&
        !SameBuffers(held->manifest.assignment(), it->second)) {
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
  if (!assigned_.contains(state) || earlier_.contains(state)) return StateNotFound(state);
  const v1::Assignment* assignment = ToBuild(state);
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

Outcome<v1::ShardsResponse> StateBuffers::Allocate(const v1::AllocateRequest& request) {
  RETURN_IF_ERROR(CheckStateName(request.state()));
  if (auto other = CheckUid(request.state(), request.state_uid())) return *std::move(other);
  if (const auto nothing = Absent(request.state())) {
    RETURN_IF_ERROR(SelectShards(*nothing, request.shards()).status());
    return DescribeShards(*nothing, {});
  }
  const Outcome<const Generation*> found = NewestOrReserve(request.state());
  if (!found.ok()) return found.unanswered();
  const Generation& held = **found;
  ASSIGN_OR_RETURN(const std::vector<int> shards, SelectShards(held, request.shards()));
  RETURN_IF_ERROR(CheckWritable(held, shards));
  return DescribeShards(held, shards);
}

absl::Status StateBuffers::CheckWritable(const Generation& held,
                                         const std::vector<int>& shards) const {
  const auto sealed = [&](int shard) { return held.manifest.sealed(shard); };
  const auto first = std::find_if(shards.begin(), shards.end(), sealed);
  if (first == shards.end()) return absl::OkStatus();
  const bool once = IsWrittenOnce(held.state());
  if (once && (held.all_sealed() || IsCommitted(held))) {
    return StateError(absl::StatusCode::kFailedPrecondition, "STATE_COMMITTED", held.state(),
                      "is written once, and all of it is sealed on this host: its shards can be "
                      "read (GetShards, remeshctl get); to write again, create another state");
  }
  if (held.manifest.assignment().committed()) {
    return StateError(absl::StatusCode::kFailedPrecondition, "STATE_COMMITTED", held.state(),
                      "is committed: its shards can be read (GetShards, remeshctl get); to "
                      "write them, Unseal them first (remeshctl put --unseal)");
  }
  const std::string name = ShardName(held, *first);
  return StateError(absl::StatusCode::kFailedPrecondition, "SHARD_SEALED", held.state(),
                    absl::StrCat("has a sealed shard ", name,
                                 once ? ", which is written once: ask for those that are not sealed"
                                      : ": Unseal it first"),
                    {{"shard", name}});
}

absl::StatusOr<const Generation*> StateBuffers::ForSealing(const std::string& state) const {
  if (state.empty()) return InvalidField("state", "", "must not be empty");
  if (const Generation* held = Newest(state); held != nullptr) return held;
  if (!assigned_.contains(state)) return StateNotFound(state).error;
  return StateError(absl::StatusCode::kFailedPrecondition, "NOT_ALLOCATED", state,
                    "has no buffers on this host yet");
}

absl::StatusOr<v1::SealResponse> StateBuffers::SetSealed(const Generation* held,
                                                         const std::vector<int>& shards,
                                                         bool sealed, const std::string& write) {
  const int64_t before = held->sealed_shards();
  const bool renamed = held->write() != write;
  if (held->lent) {  // stays sealed until it is given back
    store_->SetLentWrite(held->state(), held->number(), write);
  } else {
    RETURN_IF_ERROR(store_->SetSealed(held->state(), held->number(), shards, sealed, write));
  }
  if (held->sealed_shards() != before || renamed || shards.empty()) hooks_.changed(held->Summary());
  v1::SealResponse response;
  response.set_sealed_shards(held->sealed_shards());
  response.set_total_shards(held->manifest.sealed_size());
  response.set_generation(held->number());
  response.set_state_uid(held->state_uid());
  return response;
}

// Without an assignment of this generation since the worker's start, what it was then.
int32_t StateBuffers::HostsOf(const Generation& held) const {
  const v1::Assignment* const assigned = AssignmentOf(held);
  const bool known = assigned != nullptr && assigned->generation() == held.number();
  return known ? assigned->hosts() : held.manifest.assignment().hosts();
}

absl::StatusOr<v1::SealResponse> StateBuffers::Seal(const v1::SealRequest& request) {
  RETURN_IF_ERROR(CheckStateName(request.state()));
  RETURN_IF_ERROR(CheckWriteName(request.write()));
  if (const auto other = CheckUid(request.state(), request.state_uid())) return other->error;
  // Every host of a job may seal, whether or not it has a shard.
  if (const auto nothing = Absent(request.state())) {
    RETURN_IF_ERROR(SelectShards(*nothing, request.shards()).status());
    v1::SealResponse response;
    response.set_generation(nothing->number());
    response.set_state_uid(nothing->state_uid());
    return response;
  }
  ASSIGN_OR_RETURN(const Generation* held, ForSealing(request.state()));
  ASSIGN_OR_RETURN(const std::vector<int> shards, SelectShards(*held, request.shards()));
  const bool committed = IsWrittenOnce(request.state()) && IsCommitted(*held);
  const auto moved_by = [&] { return hooks_.moved_by(request.state()); };
  ASSIGN_OR_RETURN(const std::string write, committed
                                                ? WriteOfCommitted(*held, request.write())
                                                : WriteToSeal(*held, request.write(), moved_by));
  return SetSealed(held, shards, true, write);
}

// Whether the host has committed a later generation of which it holds nothing. Until the server
// retires this one, it may be what the state is rebuilt from.
bool StateBuffers::IsOver(const Generation& held) const {
  const auto passed = passed_.find(held.state());
  return AssignmentOf(held) != nullptr && passed != passed_.end() && passed->second > held.number();
}

absl::StatusOr<v1::SealResponse> StateBuffers::Unseal(const v1::UnsealRequest& request) {
  RETURN_IF_ERROR(CheckStateName(request.state()));
  RETURN_IF_ERROR(CheckWriteName(request.write()));
  if (IsWrittenOnce(request.state())) {
    return WrittenOnce(request.state(),
                       "its sealed shards stay sealed; to write again, create another state");
  }
  ASSIGN_OR_RETURN(const Generation* held, ForSealing(request.state()));
  ASSIGN_OR_RETURN(const std::vector<int> shards, SelectShards(*held, request.shards()));
  if (const std::string execution = hooks_.moved_by(request.state()); !execution.empty())
    return StateMoving(request.state(), execution);
  const int32_t hosts = HostsOf(*held);
  if (request.write().empty() && !shards.empty() && hosts > 1)
    return WriteIdNeeded(request.state(), hosts);
  if (IsOver(*held)) return StateMoving(request.state());
  if (held->lent) return GiveBack(held, request.write());
  return SetSealed(held, shards, false, request.write());
}

// The numbers of the state's generations on this host, the newest first; "none".
std::string StateBuffers::GenerationsHere(const std::string& state) const {
  constexpr size_t kNamed = 10;
  std::vector<int64_t> numbers;
  for (const Generation* held : store_->ListOf(state)) {
    if (!held->pending() && Current(*held)) numbers.push_back(held->number());
  }
  if (numbers.empty()) return "none";
  std::sort(numbers.rbegin(), numbers.rend());
  const bool cut = numbers.size() > kNamed;
  if (cut) numbers.resize(kNamed);
  return absl::StrCat(absl::StrJoin(numbers, ", "), cut ? ", ..." : "");
}

// Error for a generation that is not on this host. It may still come, unless a later generation
// exists.
Unanswered StateBuffers::NoGeneration(const std::string& state, int64_t generation) const {
  const Generation* newest = Newest(state);
  const auto assigned = assigned_.find(state);
  const int64_t here = newest == nullptr ? 0 : newest->number();
  const auto passed = passed_.find(state);
  int64_t latest =
      assigned == assigned_.end() ? here : std::max(here, assigned->second.generation());
  if (passed != passed_.end()) latest = std::max(latest, passed->second);
  const std::string number = absl::StrCat(generation);
  if (generation >= latest) {
    return {StateError(absl::StatusCode::kNotFound, "GENERATION_NOT_FOUND", state,
                       absl::StrCat("has no generation ", number, " on this host; it has ",
                                    GenerationsHere(state)),
                       {{"generation", number}}),
            Awaited{.state = state, .what = Awaited::What::kGeneration}};
  }
  const std::string now = absl::StrCat(latest);
  return {StateError(absl::StatusCode::kNotFound, "GENERATION_RETIRED", state,
                     absl::StrCat("has no generation ", number,
                                  " on this host any more: it is at generation ", now),
                     {{"generation", number}, {"latest_generation", now}}),
          std::nullopt};
}

// Whether every host must seal its shards before anybody may read `held`.
bool StateBuffers::AwaitsCommit(const Generation& held) const {
  if (held.number() != kFirst || !IsWrittenOnce(held.state()) || IsCommitted(held)) return false;
  const v1::Assignment* const assigned = AssignmentOf(held);
  const bool moved = assigned != nullptr && assigned->generation() > kFirst;
  return !moved && Newest(held.state()) == &held;
}

Outcome<v1::ShardsResponse> StateBuffers::GetShards(const v1::GetShardsRequest& request) {
  const std::string& state = request.state();
  RETURN_IF_ERROR(CheckStateName(state));
  const std::string number = absl::StrCat(request.generation());
  if (request.generation() < 1) return InvalidField("generation", number, "must be >= 1");
  if (auto other = CheckUid(state, request.state_uid())) return *std::move(other);
  const Generation* held = store_->Find(state, request.generation());
  if (held == nullptr || !Current(*held)) {
    // Where nothing has to be written or moved, nothing is to be waited for.
    if (const auto nothing = AbsentGeneration(state, request.generation())) {
      RETURN_IF_ERROR(SelectShards(*nothing, request.shards()).status());
      return DescribeShards(*nothing, {});
    }
    return NoGeneration(state, request.generation());
  }
  if (AwaitsCommit(*held)) {
    return Unanswered{
        StateError(absl::StatusCode::kNotFound, "GENERATION_NOT_FOUND", state,
                   absl::StrCat("has generation ", number,
                                " here, but it is not committed: every host must seal it first"),
                   {{"generation", number}}),
        Awaited{.state = state, .what = Awaited::What::kGeneration}};
  }
  const bool unsealed_again = held->manifest.assignment().committed();
  if (held->pending() || (held->phase() != v1::SHARD_PHASE_READY && !unsealed_again)) {
    return Unanswered{
        StateError(absl::StatusCode::kFailedPrecondition, "NOT_READABLE", state,
                   absl::StrCat("has generation ", number, " here, but it is not readable yet"),
                   {{"generation", number}}),
        Awaited{state, Awaited::What::kSeal, request.generation()}};
  }
  if (held->lent) {
    return StateError(
        absl::StatusCode::kFailedPrecondition, "SHARDS_LENT", state,
        absl::StrCat("has generation ", number, " here in memory that a trainer lends"),
        {{"generation", number}});
  }
  ASSIGN_OR_RETURN(const std::vector<int> shards, SelectShards(*held, request.shards()));
  return DescribeShards(*held, shards);
}

absl::Status StateBuffers::CheckReleasable(const Generation& held) const {
  if (held.phase() != v1::SHARD_PHASE_BUILDING || IsCommitted(held)) {
    return StateError(
        absl::StatusCode::kFailedPrecondition, "GENERATION_READABLE", held.state(),
        absl::StrCat("has a readable generation ", held.number(), ": DeleteState frees it"),
        {{"generation", absl::StrCat(held.number())}});
  }
  if (held.sealed_shards() == 0 || !IsWrittenOnce(held.state())) return absl::OkStatus();
  return WrittenOnce(held.state(), "its sealed shards stay: DeleteState frees them");
}

absl::Status StateBuffers::Release(const v1::ReleaseRequest& request) {
  RETURN_IF_ERROR(CheckStateName(request.state()));
  if (const auto other = CheckUid(request.state(), request.state_uid())) return other->error;
  std::vector<const Generation*> all = store_->ListOf(request.state());
  std::erase_if(all, [this](const Generation* held) { return !Current(*held); });
  if (all.empty() && !assigned_.contains(request.state()))
    return StateNotFound(request.state()).error;
  for (const Generation* held : all) RETURN_IF_ERROR(CheckReleasable(*held));
  if (reserving_.contains(request.state())) GiveUp(request.state());
  for (const Generation* held : all) {
    const std::string write = held->write();
    if (!write.empty()) store_->begun_writes().Add(held->state(), held->state_uid(), write);
    Give(held, write);
  }
  return absl::OkStatus();
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
