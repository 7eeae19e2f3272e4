// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/last_copy.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace remesh::server {
namespace {

constexpr int kGenerationsNamedMax = 8;  // generations in an error

// The first reason why the state's own generation is not whole; nullopt: it is.
std::optional<std::string> WhyNotWhole(const StateEntry& state, const WorkerRegistry& workers) {
  for (const auto& [host, part] : state.placed->hosts) {
    const WorkerEntry* worker = workers.Find(host);
    if (worker == nullptr || !worker->alive()) {
      return absl::StrCat("host ", host, " of the state is away");
    }
    const v1::StateManifest* held = worker->Manifest(state.name(), state.uid(), state.generation());
    if (held == nullptr || IsPending(*held)) {
      return absl::StrCat("host ", host, " lacks its shards of generation ", state.generation());
    }
  }
  if (state.newer_hosts.empty()) return std::nullopt;
  return absl::StrCat("host ", *state.newer_hosts.begin(),
                      " holds a newer generation than the last one known here, ",
                      state.generation());
}

// What an operator can do to save the content first.
std::string HowToSave(const v1::StateManifest& owed) {
  if (IsPending(owed)) {
    const bool verified = owed.phase() == v1::SHARD_PHASE_VERIFIED;
    return absl::StrCat("it is ", verified ? "VERIFIED" : "PREPARED",
                        ", not committed, and cannot be read");
  }
  return absl::StrCat("save it on the host with remeshctl get ", owed.state(),
                      " FOLDER --generation ", owed.generation());
}

}  // namespace

std::optional<std::string> WhyLastCopy(const v1::StateManifest& owed, const StateRegistry& states,
                                       const WorkerRegistry& workers) {
  const StateEntry* state = states.Find(owed.state());
  if (state == nullptr || state->uid() != owed.state_uid()) {
    return "no state of this name and uid is known here";
  }
  if (owed.generation() > state->generation()) {
    return absl::StrCat("it is newer than generation ", state->generation(),
                        ", the last one known here");
  }
  return WhyNotWhole(*state, workers);
}

absl::Status LastCopyError(const std::string& host, const v1::DiscardShardsRequest& request,
                           const v1::DiscardShardsResponse& response) {
  std::vector<std::string> generations, reasons;
  for (const v1::OwedShards& last : response.last_copies()) {
    if (std::ssize(generations) == kGenerationsNamedMax) break;
    const v1::StateManifest& owed = last.manifest();
    generations.push_back(absl::StrCat(owed.generation()));
    reasons.push_back(
        absl::StrCat("generation ", owed.generation(), ": ", last.reason(), "; ", HowToSave(owed)));
  }
  const int more = response.last_copies_size() - static_cast<int>(generations.size());
  if (more > 0) reasons.push_back(absl::StrCat(more, " more"));
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("host ", host, " may hold the last copy of ", request.state(),
                                " (uid ", request.state_uid(), "): ", absl::StrJoin(reasons, ". "),
                                ". Then discard with even_last_copy (remeshctl: --yes)"),
                   {.reason = "LAST_COPY",
                    .metadata = {{"host", host},
                                 {"state", request.state()},
                                 {"state_uid", request.state_uid()},
                                 {"generations", absl::StrJoin(generations, ",")}}});
}

}  // namespace remesh::server
