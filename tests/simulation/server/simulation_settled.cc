// SPDX-License-Identifier: Apache-2.0
// The laws once all faults have ended: whatever is still undone is so because of a host that lacks
// what no other host has, and that host is named.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/server/simulation.h"

namespace remesh::server {

Simulation::Settled Simulation::LookAround() {
  Settled settled;
  const auto states = AskNow<v1::ListStatesResponse>(v1::ListStatesRequest());
  for (const v1::State& state : states.states()) settled.states[state.uid()] = state;
  const auto workers = AskNow<v1::ListWorkersResponse>(v1::ListWorkersRequest());
  for (const v1::Worker& worker : workers.workers()) {
    std::set<Part>& owed = settled.owed[worker.registration().host()];
    for (const v1::OwedShards& shards : worker.owed()) owed.insert(PartOf(shards.manifest()));
  }
  const auto executions = AskNow<v1::ListExecutionsResponse>(v1::ListExecutionsRequest());
  for (const v1::Execution& execution : executions.executions()) {
    succeeded_without_lost_ +=
        execution.phase() == v1::Execution::SUCCEEDED && !execution.lost_device_ids().empty();
    if (Stays(execution)) CheckStays(execution);
    if (execution.has_end_time()) continue;
    CheckWaits(execution);
    settled.waited_for.insert(TargetOf(execution));
  }
  return settled;
}

Part Simulation::PartOf(const v1::StateManifest& manifest) {
  return {.state_uid = manifest.state_uid(),
          .generation = manifest.generation(),
          .execution = manifest.execution()};
}

Part Simulation::TargetOf(const v1::Execution& execution) {
  return {.state_uid = execution.state_uid(),
          .generation = execution.target_generation(),
          .execution = execution.name()};
}

// An execution ends, but for one that was decided, and a host of its target lacks its part of that.
// Then all others still hold theirs.
void Simulation::CheckWaits(const v1::Execution& execution) {
  const Part target = TargetOf(execution);
  bool waits = false;
  for (const int host : placements_[target]) {
    if (workers_[host].model->holds(target)) continue;
    waits = true;
    if (!workers_[host].losses.lost(target)) {
      Violate(absl::StrCat("host-", host, " lacks its part of ", execution.name()));
    }
  }
  if (execution.phase() != v1::Execution::COMMITTING || !execution.has_error() || !waits)
    Violate(absl::StrCat(execution.name(), " did not end: ", execution.ShortDebugString()));
}

// Whether a host of the state lacks its part of the generation. That it may is CheckState()'s.
bool Simulation::Incomplete(const v1::State& state) {
  const std::set<std::string> writers = WritersOf(state);
  return std::none_of(writers.begin(), writers.end(), [&](const std::string& writer) {
    const auto& hosts = state.spec().topology().hosts();
    return std::all_of(hosts.begin(), hosts.end(), [&](const v1::Host& host) {
      return workers_[IndexOf(host.name())].model->holds(PartOf(state, writer));
    });
  });
}

// Whether a host of the state cannot take its part, because another state of the name left one, or
// its trainers cannot write, because an attempt still runs: a journal that went back knows neither.
bool Simulation::InTheWayOf(const v1::State& state) const {
  if (rolled_back_ == 0) return false;
  return std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
    if (!LiesOn(state, worker.model->host())) return false;
    if (worker.model->moves(state.uid())) return true;
    const auto& all = worker.model->held();
    return std::any_of(all.begin(), all.end(), [&](const auto& held) {
      return held.first.first == state.name() && held.second.state_uid != state.uid();
    });
  });
}

// A state is READY, but for one of which a host lacks its part, or cannot take it, one that waits
// for its execution, and one of which a host holds more than a journal that went back knows.
void Simulation::CheckSettled(const v1::State& state, const Settled& settled) {
  CheckState(state);
  bool excused = false;
  switch (state.phase()) {
    case v1::State::READY:
      return;
    case v1::State::MOVING:
      excused =
          std::any_of(settled.waited_for.begin(), settled.waited_for.end(),
                      [&](const Part& target) { return target.execution == state.execution(); });
      break;
    case v1::State::LOST:
      excused = Incomplete(state) || (rolled_back_ > 0 && state.newer_hosts_size() > 0);
      break;
    case v1::State::DEGRADED:
      excused = Incomplete(state);
      break;
    case v1::State::BUILDING:
      excused = InTheWayOf(state);
      break;
    default:
      break;
  }
  if (!excused) Violate(absl::StrCat(state.name(), " did not settle: ", state.ShortDebugString()));
}

// A worker holds its part of what its states are or wait to become. What else it holds is listed as
// owed: an older generation while a host lacks its part of the one that is, or what a journal that
// went back does not know.
void Simulation::CheckHeld(const Worker& worker, const Part& part, bool pending,
                           const Settled& settled) {
  const auto known = settled.states.find(part.state_uid);
  const v1::State* state = known == settled.states.end() ? nullptr : &known->second;
  if (settled.waited_for.contains(part)) return;
  if (state != nullptr && part.generation == state->generation() && !pending &&
      LiesOn(*state, worker.model->host())) {
    return;
  }
  const std::string what = absl::StrCat(worker.model->host(), " still holds generation ",
                                        part.generation, " of ", part.state_uid);
  const auto owed = settled.owed.find(worker.model->host());
  if (owed == settled.owed.end() || !owed->second.contains(part)) {
    return Violate(absl::StrCat(what, ", and that is listed nowhere"));
  }
  const bool older = state != nullptr && part.generation < state->generation();
  if (older ? !Incomplete(*state) : rolled_back_ == 0) Violate(what);
}

void Simulation::SettleAndCheck() {
  settling_ = true;
  faults_.Stop();
  Run(60);
  if (controller_ == nullptr) return Violate("the server did not come back");
  const Settled settled = LookAround();
  for (const auto& [uid, state] : settled.states) CheckSettled(state, settled);
  for (const Worker& worker : workers_) {
    const std::set<Part> readable = worker.model->parts(false);
    for (const Part& part : worker.model->parts(true)) {
      CheckHeld(worker, part, !readable.contains(part), settled);
    }
    // An attempt that the journal does not know goes on until its process ends.
    if (rolled_back_ > 0) continue;
    for (const std::string& execution : worker.model->attempts()) {
      Violate(absl::StrCat(worker.model->host(), " still runs an attempt of ", execution));
    }
  }
}

}  // namespace remesh::server
