// SPDX-License-Identifier: Apache-2.0
#include "worker/local/state_buffers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/resource_names.h"
#include "base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "worker/local/shard_selection.h"
#include "worker/store/write_name.h"

namespace remesh::worker {
namespace {

absl::Status StateError(absl::StatusCode code, const char* reason, const std::string& state,
                        const std::string& what, std::map<std::string, std::string> more = {}) {
  more["state"] = state;
  return MakeError(code, absl::StrCat("state ", state, " ", what), {reason, std::move(more)});
}

absl::Status BeingReserved(const std::string& state) {
  return StateError(absl::StatusCode::kUnavailable, "BEING_RESERVED", state,
                    "is having its memory reserved");
}

// Checks the form that every state name has. A caller that waits for any other name would wait
// forever.
absl::Status CheckStateName(const std::string& name) {
  return ParseStateName("state", name).status();
}

absl::Status StateMoving(const std::string& state) {
  return StateError(absl::StatusCode::kFailedPrecondition, "STATE_MOVING", state, "is being moved");
}

// Of a call that begins a write of a state whose other hosts would look as if they had done so.
absl::Status WriteIdNeeded(const std::string& state, int32_t hosts) {
  const std::string count = absl::StrCat(hosts);
  return StateError(
      absl::StatusCode::kFailedPrecondition, "WRITE_ID_NEEDED", state,
      absl::StrCat("has shards on ", count,
                   " hosts: name the write, the same on all of them (--write of put, "
                   "unseal and seal, write= of a Trainer); the training step will do"),
      {{"hosts", count}});
}

absl::Status WriteDiffers(const Generation& held, const std::string& write) {
  return StateError(
      absl::StatusCode::kFailedPrecondition, "WRITE_DIFFERS", held.state(),
      absl::StrCat("has unsealed shards here of write \"", held.write(), "\", and Seal names \"",
                   write, "\": seal the write that began, or Unseal first for the other"),
      {{"write", write}, {"begun_write", held.write()}});
}

// Of a Seal that comes late: another write has filled the shards since.
absl::Status WriteReplaced(const Generation& held, const std::string& write) {
  return StateError(absl::StatusCode::kFailedPrecondition, "WRITE_DIFFERS", held.state(),
                    absl::StrCat("is of write \"", held.write(), "\" here, which replaced write \"",
                                 write, "\": Unseal first to write that again"),
                    {{"write", write}, {"begun_write", held.write()}});
}

bool IsReplaced(const Generation& held, const std::string& write) {
  const auto& replaced = held.manifest.replaced_writes();
  return std::find(replaced.begin(), replaced.end(), write) != replaced.end();
}

// Without what may change while the buffers stay the same.
bool SameBuffers(v1::Assignment a, v1::Assignment b) {
  for (v1::Assignment* const assignment : {&a, &b}) {
    assignment->clear_committed();
    assignment->clear_hosts();
  }
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

std::string ShardName(const Generation& held, int shard) {
  const v1::Assignment& assignment = held.manifest.assignment();
  const v1::ShardSpec& spec = assignment.shards(shard);
  return absl::StrCat(assignment.arrays(spec.array()).name(),
                      held.places.shards[shard].box.DebugString(), " on device ", spec.device());
}

}  // namespace

absl::Status StaleShards(const std::string& host, const std::string& state,
                         const std::string& state_uid) {
  return StateError(absl::StatusCode::kFailedPrecondition, "STALE_SHARDS", state,
                    absl::StrCat("has buffers here of an earlier state of its name, ", state_uid,
                                 ": if nobody needs them, remeshctl workers discard ", host, " ",
                                 state, " ", state_uid),
                    {{"host", host}, {"state_uid", state_uid}});
}

StateBuffers::StateBuffers(std::string host, BufferStore* store, FilesQueue* files,
                           FilesQueue* loans, Hooks hooks)
    : host_(std::move(host)),
      store_(store),
      files_(files),
      loans_(loans),
      hooks_(std::move(hooks)) {}

bool StateBuffers::Assign(const v1::Assignment& assignment) {
  v1::Assignment& known = assigned_[assignment.state()];
  const bool passed = passed_.erase(assignment.state()) > 0;
  if (!passed && known.shards().empty() && assignment.shards().empty() &&
      google::protobuf::util::MessageDifferencer::Equals(known, assignment)) {
    return false;
  }
  known = assignment;
  // No trainer has seen the buffers that are still being reserved.
  const auto it = reserving_.find(assignment.state());
  if (it != reserving_.end() && it->second.state_uid != assignment.state_uid())
    GiveUp(assignment.state());
  return true;
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
    if (held->lost() && !hooks_.moving(held->state())) Give(held);
  }
  for (auto& [state, reserving] : reserving_) {
    if (reserving.lease != nullptr && reserving.lease->ended()) reserving.job->Cancel();
  }
}

void StateBuffers::Close() {
  for (auto& [state, reserving] : reserving_) reserving.job->Cancel();
}

bool StateBuffers::Current(const Generation& held) const {
  const auto it = assigned_.find(held.state());
  return it == assigned_.end() || it->second.state_uid() == held.state_uid();
}

void StateBuffers::ForgetAbsent() {
  std::erase_if(assigned_, [](const auto& entry) { return entry.second.shards().empty(); });
  std::erase_if(passed_, [this](const auto& entry) { return !assigned_.contains(entry.first); });
}

std::optional<Generation> StateBuffers::Absent(const std::string& state) const {
  const v1::Assignment* assignment = ToBuild(state);
  if (assignment == nullptr || !assignment->shards().empty() || Newest(state) != nullptr)
    return std::nullopt;
  Generation nothing;
  *nothing.manifest.mutable_assignment() = *assignment;
  return nothing;
}

std::optional<Generation> StateBuffers::AbsentGeneration(const std::string& state,
                                                         int64_t generation) const {
  const auto it = assigned_.find(state);
  if (it == assigned_.end() || !it->second.shards().empty() ||
      it->second.generation() != generation) {
    return std::nullopt;
  }
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
  const auto it = assigned_.find(held.state());
  return held.manifest.assignment().committed() ||
         (it != assigned_.end() && it->second.committed() &&
          it->second.state_uid() == held.state_uid() && it->second.generation() == held.number());
}

const Generation* StateBuffers::Newest(const std::string& state) const {
  const Generation* newest = nullptr;
  for (const Generation* held : store_->ListOf(state)) {
    if (!held->pending() && Current(*held)) newest = held;
  }
  return newest;
}

// Buffers of two states with the same name, or of two assignments of one state, must not coexist.
absl::Status StateBuffers::CheckNoneStale(const std::string& state) const {
  const auto it = assigned_.find(state);
  if (it == assigned_.end()) return absl::OkStatus();
  for (const Generation* held : store_->ListOf(state)) {
    const std::string& uid = held->state_uid();
    if (!Current(*held) && forgetting_.contains({state, uid})) return BeingReserved(state);
    if (!Current(*held)) return StaleShards(host_, state, uid);
    if (held->number() == it->second.generation() && !held->pending() && !it->second.committed() &&
        !SameBuffers(held->manifest.assignment(), it->second)) {
      return StateError(absl::StatusCode::kFailedPrecondition, "STALE_SHARDS", state,
                        "has buffers of another assignment on this host: Release frees them",
                        {{"state_uid", uid}});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const Generation*> StateBuffers::NewestOrReserve(const std::string& state) {
  RETURN_IF_ERROR(CheckNoneStale(state));
  if (const Generation* held = Newest(state); held != nullptr) return held;
  if (reserving_.contains(state)) return BeingReserved(state);
  const auto it = assigned_.find(state);
  if (it == assigned_.end()) {
    return StateError(absl::StatusCode::kNotFound, "STATE_NOT_FOUND", state,
                      "is not known on this host");
  }
  const v1::Assignment* assignment = ToBuild(state);
  if (assignment == nullptr) {
    return StateError(absl::StatusCode::kFailedPrecondition, "STATE_COMMITTED", state,
                      "is committed, and its buffers are not on this host");
  }
  RETURN_IF_ERROR(Reserve(*assignment));
  return BeingReserved(state);
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

absl::StatusOr<v1::ShardsResponse> StateBuffers::Allocate(const v1::AllocateRequest& request) {
  RETURN_IF_ERROR(CheckStateName(request.state()));
  if (const auto nothing = Absent(request.state())) {
    RETURN_IF_ERROR(SelectShards(*nothing, request.shards()).status());
    return DescribeShards(*nothing, {});
  }
  ASSIGN_OR_RETURN(const Generation* held, NewestOrReserve(request.state()));
  ASSIGN_OR_RETURN(const std::vector<int> shards, SelectShards(*held, request.shards()));
  for (const int shard : shards) {
    if (!held->manifest.sealed(shard)) continue;
    if (held->manifest.assignment().committed()) {
      return StateError(absl::StatusCode::kFailedPrecondition, "STATE_COMMITTED", request.state(),
                        "is committed: its shards can be read (GetShards, remeshctl get); to "
                        "write them, Unseal them first (remeshctl put --unseal)");
    }
    const std::string name = ShardName(*held, shard);
    return StateError(absl::StatusCode::kFailedPrecondition, "SHARD_SEALED", request.state(),
                      absl::StrCat("has a sealed shard ", name, ": Unseal it first"),
                      {{"shard", name}});
  }
  return DescribeShards(*held, shards);
}

absl::StatusOr<const Generation*> StateBuffers::ForSealing(const std::string& state) const {
  if (state.empty()) return InvalidField("state", "", "must not be empty");
  if (const Generation* held = Newest(state); held != nullptr) return held;
  if (!assigned_.contains(state)) {
    return StateError(absl::StatusCode::kNotFound, "STATE_NOT_FOUND", state,
                      "is not known on this host");
  }
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
  return response;
}

// Without an assignment of this generation since the worker's start, what it was then.
int32_t StateBuffers::HostsOf(const Generation& held) const {
  const auto it = assigned_.find(held.state());
  const bool assigned = it != assigned_.end() && it->second.state_uid() == held.state_uid() &&
                        it->second.generation() == held.number();
  return assigned ? it->second.hosts() : held.manifest.assignment().hosts();
}

absl::StatusOr<std::string> StateBuffers::WriteToSeal(const Generation& held,
                                                      const std::string& name) {
  if (name.empty() || name == held.write()) return held.write();
  if (!held.all_sealed() && !held.write().empty()) return WriteDiffers(held, name);
  if (IsReplaced(held, name)) return WriteReplaced(held, name);
  if (hooks_.moving(held.state())) return StateMoving(held.state());
  return name;
}

absl::StatusOr<v1::SealResponse> StateBuffers::Seal(const v1::SealRequest& request) {
  RETURN_IF_ERROR(CheckStateName(request.state()));
  RETURN_IF_ERROR(CheckWriteName(request.write()));
  // Every host of a job may seal, whether or not it has a shard.
  if (const auto nothing = Absent(request.state())) {
    RETURN_IF_ERROR(SelectShards(*nothing, request.shards()).status());
    v1::SealResponse response;
    response.set_generation(nothing->number());
    return response;
  }
  ASSIGN_OR_RETURN(const Generation* held, ForSealing(request.state()));
  ASSIGN_OR_RETURN(const std::vector<int> shards, SelectShards(*held, request.shards()));
  ASSIGN_OR_RETURN(const std::string write, WriteToSeal(*held, request.write()));
  return SetSealed(held, shards, true, write);
}

// A loan whose memory is being opened.
struct StateBuffers::Opening {
  v1::Assignment assignment;
  Loan loan;
  absl::Status opened = absl::CancelledError("the loan was given up");
  LendDone done;
};

absl::Status StateBuffers::CheckMayLend(const std::string& state) const {
  RETURN_IF_ERROR(CheckStateName(state));
  RETURN_IF_ERROR(CheckNoneStale(state));
  const auto it = assigned_.find(state);
  if (it == assigned_.end()) {
    return StateError(absl::StatusCode::kNotFound, "STATE_NOT_FOUND", state,
                      "is not known on this host");
  }
  const auto reserving = reserving_.find(state);
  const bool lends = reserving != reserving_.end() && reserving->second.lends;
  if (lends) return BeingReserved(state);
  if (ToBuild(state) != nullptr && Newest(state) == nullptr && reserving == reserving_.end())
    return absl::OkStatus();
  return StateError(absl::StatusCode::kFailedPrecondition, "ALREADY_ALLOCATED", state,
                    "has buffers already: nothing can be lent in their place");
}

LoanTotals StateBuffers::TotalsFor(uid_t lender) {
  std::erase_if(sizes_, [](const auto& size) { return size.expired(); });
  LoanTotals totals;
  for (const auto& weak : sizes_) {
    const std::shared_ptr<const LoanSize> size = weak.lock();
    if (size == nullptr) continue;
    for (LoanSize* const sum : {&totals.all, &totals.of_user}) {
      if (sum == &totals.of_user && size->lender != lender) continue;
      sum->host_bytes += size->host_bytes;
      sum->memories += size->memories;
    }
  }
  return totals;
}

absl::StatusOr<v1::SealResponse> StateBuffers::Lend(const v1::LendRequest& request, uid_t lender,
                                                    LendDone done) {
  const std::string& state = request.state();
  RETURN_IF_ERROR(CheckMayLend(state));
  RETURN_IF_ERROR(CheckWriteName(request.write()));
  const v1::Assignment& assignment = assigned_.at(state);
  if (assignment.shards().empty()) {
    v1::SealResponse response;
    response.set_generation(assignment.generation());
    return response;
  }
  if (request.write().empty() && assignment.hosts() > 1 &&
      store_->begun_writes().Find(state, assignment.state_uid())) {
    return WriteIdNeeded(state, assignment.hosts());
  }
  ASSIGN_OR_RETURN(const ShardPlaces places, PlaceShards(assignment, store_->devices()));
  ASSIGN_OR_RETURN(Loan loan,
                   CheckLoan(request, lender, assignment, places, TotalsFor(lender), *store_));
  loan.lent.mapped = loans_->Own<MappedShards>();
  loan.lent.mapped->size = std::make_shared<const LoanSize>(loan.size);
  sizes_.push_back(loan.lent.mapped->size);
  Open(std::make_shared<Opening>(
      Opening{.assignment = assignment, .loan = std::move(loan), .done = std::move(done)}));
  return StateError(absl::StatusCode::kUnavailable, "BEING_LENT", state,
                    "is having the memory opened that is lent");
}

void StateBuffers::Open(std::shared_ptr<Opening> opening) {
  Reserving& reserving = reserving_[opening->assignment.state()];
  reserving = {.state_uid = opening->assignment.state_uid(),
               .job = nullptr,
               .lends = true,
               .lease = opening->loan.lease};
  reserving.job = loans_->PostPortions(
      [this, opening](const std::atomic<bool>& cancelled) {
        const auto opened = OpenSome(opening->loan, store_->segments(), cancelled);
        if (opened) opening->opened = *opened;
        return opened.has_value();
      },
      [this, opening] { Opened(*opening); });
}

// Why a loan whose state changed must be tried again. The call itself cannot do so by tokens that
// are used up.
absl::Status StateBuffers::StateChanged(const Opening& opening) {
  const std::string& state = opening.assignment.state();
  for (const v1::LentMemory& memory : opening.loan.request.memories()) {
    if (memory.has_ipc()) continue;
    return StateError(absl::StatusCode::kAborted, "STATE_CHANGED", state,
                      "changed while its memory was opened: lend again, with new tokens");
  }
  return BeingReserved(state);
}

void StateBuffers::Opened(Opening& opening) {
  const std::string& state = opening.assignment.state();
  const bool given_up = reserving_.extract(state).mapped().given_up;
  absl::StatusOr<v1::SealResponse> lent = StateChanged(opening);
  if (!given_up) lent = FinishLending(opening);
  opening.loan = Loan();  // what is not lent now is closed
  opening.done(std::move(lent));
  hooks_.reserved(state, absl::OkStatus());
}

absl::StatusOr<v1::SealResponse> StateBuffers::FinishLending(Opening& opening) {
  RETURN_IF_ERROR(CheckLease(opening.loan));
  RETURN_IF_ERROR(opening.opened);
  const v1::Assignment& assignment = opening.assignment;
  const v1::Assignment* now = ToBuild(assignment.state());
  if (now == nullptr || !SameBuffers(*now, assignment)) return StateChanged(opening);
  RETURN_IF_ERROR(store_->Lend(assignment, std::move(opening.loan.lent)));
  store_->begun_writes().Drop(assignment.state(), assignment.state_uid());
  const Generation* held = store_->Find(assignment.state(), assignment.generation());
  hooks_.changed(held->Summary());
  v1::SealResponse response;
  response.set_generation(held->number());
  response.set_sealed_shards(held->sealed_shards());
  response.set_total_shards(held->manifest.sealed_size());
  return response;
}

void StateBuffers::StopLending(const std::string& state) {
  const auto it = reserving_.find(state);
  if (it != reserving_.end() && it->second.lends) GiveUp(state);
}

// Whether the host has committed a later generation of which it holds nothing. Until the server
// retires this one, it may be what the state is rebuilt from.
bool StateBuffers::IsOver(const Generation& held) const {
  const auto it = assigned_.find(held.state());
  const auto passed = passed_.find(held.state());
  return it != assigned_.end() && it->second.state_uid() == held.state_uid() &&
         passed != passed_.end() && passed->second > held.number();
}

// Ends a loan, for a write whose name must outlive it.
v1::SealResponse StateBuffers::GiveBack(const Generation* held, const std::string& write) {
  store_->begun_writes().Add(held->state(), held->state_uid(), write);
  v1::SealResponse response;
  response.set_total_shards(held->manifest.sealed_size());
  response.set_generation(held->number());
  Give(held, write);
  return response;
}

absl::StatusOr<v1::SealResponse> StateBuffers::Unseal(const v1::UnsealRequest& request) {
  RETURN_IF_ERROR(CheckStateName(request.state()));
  RETURN_IF_ERROR(CheckWriteName(request.write()));
  ASSIGN_OR_RETURN(const Generation* held, ForSealing(request.state()));
  ASSIGN_OR_RETURN(const std::vector<int> shards, SelectShards(*held, request.shards()));
  if (hooks_.moving(request.state())) return StateMoving(request.state());
  const int32_t hosts = HostsOf(*held);
  if (request.write().empty() && !shards.empty() && hosts > 1)
    return WriteIdNeeded(request.state(), hosts);
  if (IsOver(*held)) return StateMoving(request.state());
  if (held->lent) return GiveBack(held, request.write());
  return SetSealed(held, shards, false, request.write());
}

// Error for a generation that is not on this host. It may still come, unless a later generation
// exists.
absl::Status StateBuffers::NoGeneration(const std::string& state, int64_t generation) const {
  const Generation* newest = Newest(state);
  const auto assigned = assigned_.find(state);
  const int64_t here = newest == nullptr ? 0 : newest->number();
  const auto passed = passed_.find(state);
  int64_t latest =
      assigned == assigned_.end() ? here : std::max(here, assigned->second.generation());
  if (passed != passed_.end()) latest = std::max(latest, passed->second);
  const std::string number = absl::StrCat(generation);
  if (generation >= latest) {
    return StateError(absl::StatusCode::kNotFound, "GENERATION_NOT_FOUND", state,
                      absl::StrCat("has no generation ", number, " on this host"),
                      {{"generation", number}});
  }
  const std::string now = absl::StrCat(latest);
  return StateError(absl::StatusCode::kNotFound, "GENERATION_RETIRED", state,
                    absl::StrCat("has no generation ", number,
                                 " on this host any more: it is at generation ", now),
                    {{"generation", number}, {"latest_generation", now}});
}

absl::StatusOr<v1::ShardsResponse> StateBuffers::GetShards(const v1::GetShardsRequest& request) {
  RETURN_IF_ERROR(CheckStateName(request.state()));
  const std::string number = absl::StrCat(request.generation());
  if (request.generation() < 1) return InvalidField("generation", number, "must be >= 1");
  const Generation* held = store_->Find(request.state(), request.generation());
  if (held == nullptr || !Current(*held)) {
    // Where nothing has to be written or moved, nothing is to be waited for.
    if (const auto nothing = AbsentGeneration(request.state(), request.generation())) {
      RETURN_IF_ERROR(SelectShards(*nothing, request.shards()).status());
      return DescribeShards(*nothing, {});
    }
    return NoGeneration(request.state(), request.generation());
  }
  const bool unsealed_again = held->manifest.assignment().committed();
  if (held->pending() || (held->phase() != v1::SHARD_PHASE_READY && !unsealed_again)) {
    return StateError(absl::StatusCode::kFailedPrecondition, "NOT_READABLE", request.state(),
                      absl::StrCat("has generation ", number, " here, but it is not readable yet"),
                      {{"generation", number}});
  }
  if (held->lent) {
    return StateError(
        absl::StatusCode::kFailedPrecondition, "SHARDS_LENT", request.state(),
        absl::StrCat("has generation ", number, " here in memory that a trainer lends"),
        {{"generation", number}});
  }
  ASSIGN_OR_RETURN(const std::vector<int> shards, SelectShards(*held, request.shards()));
  return DescribeShards(*held, shards);
}

absl::Status StateBuffers::Release(const v1::ReleaseRequest& request) {
  RETURN_IF_ERROR(CheckStateName(request.state()));
  std::vector<const Generation*> all = store_->ListOf(request.state());
  std::erase_if(all, [this](const Generation* held) { return !Current(*held); });
  if (all.empty() && !assigned_.contains(request.state())) {
    return StateError(absl::StatusCode::kNotFound, "STATE_NOT_FOUND", request.state(),
                      "is not known on this host");
  }
  for (const Generation* held : all) {
    if (held->phase() == v1::SHARD_PHASE_BUILDING && !IsCommitted(*held)) continue;
    return StateError(
        absl::StatusCode::kFailedPrecondition, "GENERATION_READABLE", request.state(),
        absl::StrCat("has a readable generation ", held->number(), ": DeleteState frees it"),
        {{"generation", absl::StrCat(held->number())}});
  }
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
