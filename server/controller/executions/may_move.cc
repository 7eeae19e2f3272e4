// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/may_move.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/membership/data_addresses.h"
#include "server/controller/states/not_ready.h"
#include "server/controller/states/write_once.h"

namespace remesh::server {
namespace {

// The names of the arrays with shards on the host.
std::set<std::string_view> ArraysOn(const PlacedState& placed, const HostPart& part) {
  std::set<std::string_view> names;
  for (const PlacedShard& shard : part.shards) {
    if (shard.array < placed.arrays.size()) names.insert(placed.arrays[shard.array].name());
  }
  return names;
}

}  // namespace

absl::Status CheckFree(const StateEntry& state, bool reserved, int64_t expected_generation) {
  const std::string& name = state.name();
  if (!state.execution.empty() || reserved || state.deleting)
    return StateMoving(name, state.execution);
  if (state.generation() != expected_generation) {
    const std::string expected = absl::StrCat(expected_generation),
                      found = absl::StrCat(state.generation());
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("expected_generation: value \"", expected,
                     "\" does not match the current generation of ", name, ", ", found),
        {.reason = "GENERATION_MISMATCH",
         .metadata = {{"field", "expected_generation"},
                      {"value", expected},
                      {"generation", found},
                      {"state", name}}});
  }
  return absl::OkStatus();
}

absl::Status CheckKept(const v1::StartExecutionRequest& request, const StateEntry& state,
                       const Membership& membership) {
  for (const auto& [host, part] : state.placed->hosts) {
    if (!membership.drained(host)) continue;
    std::set<std::string_view> kept = ArraysOn(*state.placed, part);
    for (const v1::TargetArray& array : request.targets().arrays()) kept.erase(array.name());
    if (kept.empty()) continue;
    return InvalidField("targets.arrays", std::string(*kept.begin()),
                        absl::StrCat("must be named: without a target it stays on host ", host,
                                     ", which is drained"));
  }
  return absl::OkStatus();
}

absl::Status CheckReady(const StateEntry& state, const std::set<std::string>& spared,
                        const WorkerRegistry& workers) {
  const v1::State::Phase phase = PhaseOf(state, workers, spared);
  if (phase == v1::State::READY) return absl::OkStatus();
  return NotReady(state, workers);
}

absl::Status CheckCanLose(const StateEntry& state, const WorkerRegistry& workers) {
  const bool building = PhaseOf(state, workers) == v1::State::BUILDING;
  if (building || !state.newer_hosts.empty()) return NotReady(state, workers);
  return absl::OkStatus();
}

absl::Status CheckHosts(const StateEntry& state, const PlannedExecution& move,
                        const Membership& membership, bool encrypts_data) {
  if (state.declared.write_once()) {
    RETURN_IF_ERROR(CheckKnowWriteOnce(*move.target, membership.workers()));
  }
  for (const auto& [host, part] : move.target->hosts) {
    RETURN_IF_ERROR(CheckNotDrained(membership, host));
  }
  std::set<std::string> hosts;
  for (const auto& [host, devices] : move.hosts) {
    RETURN_IF_ERROR(CheckHost(membership.workers(), host, devices));
    hosts.insert(host);
  }
  RETURN_IF_ERROR(CheckCommonTransport(hosts, membership.workers()));
  return CheckEncrypts(encrypts_data, hosts, membership.workers());
}

}  // namespace remesh::server
