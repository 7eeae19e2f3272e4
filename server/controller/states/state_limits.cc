// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/state_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

// The state's bytes now or, if that is more, after its running move has committed.
int64_t BytesOf(const StateEntry& state) {
  const int64_t now = state.placed->total_bytes;
  return state.target == nullptr ? now : std::max(now, state.target->total_bytes);
}

int64_t EntriesOf(const PlacedState& placed) { return placed.arrays.size() + placed.total_shards; }

// As BytesOf().
int64_t EntriesOf(const StateEntry& state) {
  const int64_t now = EntriesOf(*state.placed);
  return state.target == nullptr ? now : std::max(now, EntriesOf(*state.target));
}

absl::Status JobQuota(const std::string& job, const char* quota, int64_t limit, int64_t use) {
  const std::string most = absl::StrCat(limit), would = absl::StrCat(use);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat(job, " may have ", quota, " ", most, ", and with this it would have ", would),
      {.reason = "JOB_QUOTA",
       .metadata = {{"job", job}, {"quota", quota}, {"limit", most}, {"use", would}}});
}

}  // namespace

absl::Status StateLimits::CheckCreate(const std::string& name, const PlacedState& placed) const {
  RETURN_IF_ERROR(CheckQuota(name, 1, placed.total_bytes));
  RETURN_IF_ERROR(CheckStates());
  return CheckEntries(EntriesOf(placed));
}

absl::Status StateLimits::CheckMove(const StateEntry& state, const PlacedState& target) const {
  RETURN_IF_ERROR(CheckQuota(state.name(), 0, target.total_bytes - state.placed->total_bytes));
  return CheckEntries(EntriesOf(target) - EntriesOf(*state.placed));
}

// The job of the state may have that much more.
absl::Status StateLimits::CheckQuota(const std::string& name, int64_t more_states,
                                     int64_t more_bytes) const {
  const std::string prefix = absl::StrCat("jobs/", *ParseStateName("state.name", name), "/");
  int64_t states = more_states, bytes = more_bytes;
  const auto& all = registry_.states();
  for (auto at = all.lower_bound(prefix); at != all.end() && at->first.starts_with(prefix); ++at) {
    ++states;
    bytes = AddBytes(bytes, BytesOf(at->second));
  }
  for (auto at = creates_.lower_bound(prefix);
       at != creates_.end() && at->first.starts_with(prefix); ++at) {
    ++states;
    bytes = AddBytes(bytes, at->second.entry.placed->total_bytes);
  }
  const std::string job = prefix.substr(0, prefix.size() - 1);
  if (more_states > 0 && options_.states_per_job > 0 && states > options_.states_per_job) {
    return JobQuota(job, "states_per_job", options_.states_per_job, states);
  }
  if (more_bytes > 0 && options_.bytes_per_job > 0 && bytes > options_.bytes_per_job) {
    return JobQuota(job, "bytes_per_job", options_.bytes_per_job, bytes);
  }
  return absl::OkStatus();
}

absl::Status StateLimits::CheckStates() const {
  if (registry_.states().size() + creates_.size() < options_.states_max) return absl::OkStatus();
  const std::string most = absl::StrCat(options_.states_max);
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("there are ", most, " states already"),
                   {.reason = "TOO_MANY_STATES", .metadata = {{"states_max", most}}});
}

// All states together may have that many more arrays and shards.
absl::Status StateLimits::CheckEntries(int64_t more) const {
  if (more <= 0) return absl::OkStatus();
  int64_t entries = more;
  for (const auto& [name, state] : registry_.states()) entries += EntriesOf(state);
  for (const auto& [name, create] : creates_) entries += EntriesOf(*create.entry.placed);
  if (entries <= options_.state_entries_max) return absl::OkStatus();
  const std::string most = absl::StrCat(options_.state_entries_max);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("the states would have ", entries, " arrays and shards in all, more than ", most,
                   ", the server's state_entries_max"),
      {.reason = "TOO_MANY_ARRAYS", .metadata = {{"state_entries_max", most}}});
}

}  // namespace remesh::server
