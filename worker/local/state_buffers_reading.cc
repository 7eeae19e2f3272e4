// SPDX-License-Identifier: Apache-2.0
// The call of those who read a state: GetShards.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "worker/local/shard_selection.h"
#include "worker/local/state_buffers.h"
#include "worker/local/state_errors.h"

namespace remesh::worker {

std::optional<Generation> StateBuffers::AbsentGeneration(const std::string& state,
                                                         int64_t generation) const {
  const v1::Assignment* const assigned = assigned_.Find(state);
  if (assigned == nullptr || !assigned->shards().empty() || assigned->generation() != generation) {
    return std::nullopt;
  }
  if (assigned->write_once() && !assigned->committed()) return std::nullopt;
  const Generation* newest = Newest(state);
  if (newest != nullptr && newest->number() > generation) return std::nullopt;
  Generation nothing;
  *nothing.manifest.mutable_assignment() = *assigned;
  return nothing;
}

// The numbers of the state's generations on this host, the newest first; "none".
std::string StateBuffers::GenerationsHere(const std::string& state) const {
  constexpr size_t kNamed = 10;
  std::vector<int64_t> numbers;
  for (const Generation* held : store_->ListOf(state)) {
    if (!held->pending() && assigned_.Current(*held)) numbers.push_back(held->number());
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
  const int64_t here = newest == nullptr ? 0 : newest->number();
  const int64_t latest = std::max(here, assigned_.Latest(state));
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
  if (held.number() != kFirst || !IsWrittenOnce(held.state()) || assigned_.IsCommitted(held))
    return false;
  const v1::Assignment* const assigned = assigned_.AssignmentOf(held);
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
  if (held == nullptr || !assigned_.Current(*held)) {
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

}  // namespace remesh::worker
