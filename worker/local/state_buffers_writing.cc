// SPDX-License-Identifier: Apache-2.0
// The calls of those who write a state: Allocate, Seal, Unseal, Release.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "worker/local/shard_selection.h"
#include "worker/local/state_buffers.h"
#include "worker/local/state_errors.h"
#include "worker/local/write_rules.h"
#include "worker/store/write_name.h"

namespace remesh::worker {
namespace {

std::string ShardName(const Generation& held, int shard) {
  const v1::Assignment& assignment = held.manifest.assignment();
  const v1::ShardSpec& spec = assignment.shards(shard);
  return absl::StrCat(assignment.arrays(spec.array()).name(),
                      held.places.shards[shard].box.DebugString(), " on device ", spec.device());
}

}  // namespace

std::optional<Generation> StateBuffers::Absent(const std::string& state) const {
  const v1::Assignment* const assigned = assigned_.Find(state);
  if (assigned == nullptr || !assigned->shards().empty() || Newest(state) != nullptr)
    return std::nullopt;
  // The other hosts commit what is written once without waiting for calls here.
  const bool first = assigned->write_once() && assigned->generation() == kFirst;
  const bool late = first && assigned->committed() && !assigned_.Passed(state);
  if (!late && assigned_.ToBuild(state) == nullptr) return std::nullopt;
  Generation nothing;
  *nothing.manifest.mutable_assignment() = *assigned;
  return nothing;
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
  if (once && (held.all_sealed() || assigned_.IsCommitted(held))) {
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
  if (assigned_.Find(state) == nullptr) return StateNotFound(state).error;
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
  const bool committed = IsWrittenOnce(request.state()) && assigned_.IsCommitted(*held);
  const auto moved_by = [&] { return hooks_.moved_by(request.state()); };
  ASSIGN_OR_RETURN(const std::string write, committed
                                                ? WriteOfCommitted(*held, request.write())
                                                : WriteToSeal(*held, request.write(), moved_by));
  return SetSealed(held, shards, true, write);
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
  const int32_t hosts = assigned_.HostsOf(*held);
  if (request.write().empty() && !shards.empty() && hosts > 1)
    return WriteIdNeeded(request.state(), hosts);
  if (assigned_.IsOver(*held)) return StateMoving(request.state());
  if (held->lent) return GiveBack(held, request.write());
  return SetSealed(held, shards, false, request.write());
}

absl::Status StateBuffers::CheckReleasable(const Generation& held) const {
  if (held.phase() != v1::SHARD_PHASE_BUILDING || assigned_.IsCommitted(held)) {
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
  std::erase_if(all, [this](const Generation* held) { return !assigned_.Current(*held); });
  if (all.empty() && assigned_.Find(request.state()) == nullptr)
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

}  // namespace remesh::worker
