// SPDX-License-Identifier: Apache-2.0
// The laws, and how states lie over workers here: every host of the spec's topology holds one
// shard.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/server/simulation.h"

namespace remesh {

std::shared_ptr<const PlacedState> Simulation::Place(const v1::StateSpec& spec) const {
  auto placed = std::make_shared<PlacedState>();
  placed->spec = spec;
  for (const v1::Host& host : spec.topology().hosts()) {
    HostPart& part = placed->hosts[host.name()];
    part.assignment.add_shards();
    part.devices = {.device_ids = {host.device_ids(0)}, .local_devices = {0}};
    ++placed->total_shards;
  }
  return placed;
}

v1::StateSpec Simulation::RandomSpec(const std::vector<int64_t>& lost) {
  v1::StateSpec spec;
  while (spec.topology().hosts().empty()) {
    for (int i = 0; i < options_.workers; ++i) {
      if (std::find(lost.begin(), lost.end(), i) != lost.end() || Chance(0.5)) continue;
      v1::Host& host = *spec.mutable_topology()->add_hosts();
      host.set_name(absl::StrCat("host-", i));
      host.add_device_ids(i);
    }
  }
  return spec;
}

// Nobody commits before all have verified, and a generation is committed by one execution only.
void Simulation::CheckCommit(const v1::Commit& commit) {
  const std::string& execution = commit.attempt().execution();
  auto [known, first] =
      committed_by_.try_emplace({moved_uids_[execution], commit.generation()}, execution);
  if (known->second != execution)
    Violate(
        absl::StrCat(commit.state(), " generation ", commit.generation(), " is committed twice"));
  for (const Worker& worker : workers_) {
    auto held = worker.model->held().find({commit.state(), commit.generation()});
    if (held == worker.model->held().end()) continue;
    if (held->second.execution == execution && held->second.phase == v1::SHARD_PHASE_PREPARED) {
      Violate(absl::StrCat("commit of ", execution, " while ", worker.model->host(),
                           " has not verified"));
    }
  }
}

// A generation goes when the next one is readable wherever it lies.
void Simulation::CheckRetire(const v1::Retire& retire) {
  bool next_exists = false;
  for (const Worker& worker : workers_) {
    for (const auto& [key, held] : worker.model->held()) {
      if (held.state_uid != retire.state_uid() || key.second <= retire.generation()) continue;
      next_exists = next_exists || held.phase == v1::SHARD_PHASE_READY;
      // Leftovers of aborted executions do not count.
      auto winner = committed_by_.find({held.state_uid, key.second});
      const bool counts = winner != committed_by_.end() && winner->second == held.execution;
      if (key.second == retire.generation() + 1 && counts && held.phase != v1::SHARD_PHASE_READY) {
        Violate(absl::StrCat(retire.state(), " generation ", retire.generation(),
                             " is retired before the next is committed on ", worker.model->host()));
      }
    }
  }
  // Whoever deletes the state may reach the others first.
  const bool deleted = forgotten_uids_.contains(retire.state_uid());
  if (!next_exists && !deleted && !LostSome(retire.state_uid()))
    Violate(absl::StrCat("the last generation of ", retire.state(), " is retired"));
}

// What callers are told never goes back, and lies complete on the workers.
void Simulation::CheckState(const v1::State& state) {
  uids_[state.name()] = state.uid();
  int64_t& told = generations_[state.uid()];
  if (state.generation() < told)
    Violate(absl::StrCat(state.name(), " went back to generation ", state.generation()));
  told = std::max(told, state.generation());
  if (state.generation() == 1 && state.phase() != v1::State::READY) return;  // being built
  if (LostSome(state.uid()) && state.phase() != v1::State::READY) return;
  for (const v1::Host& host : state.spec().topology().hosts()) {
    for (const Worker& worker : workers_) {
      if (worker.lost.contains(state.uid())) continue;  // and the server may not know it yet
      if (worker.model->host() == host.name() && !worker.model->holds(state)) {
        Violate(absl::StrCat(state.name(), " generation ", state.generation(), " is not on ",
                             host.name()));
      }
    }
  }
}

// Nothing is asked of a host whose devices are lost.
void Simulation::CheckLostHostsAreSpared(const v1::Execution& execution) {
  for (const int64_t device : execution.lost_device_ids()) {
    for (const v1::HostProgress& host : execution.hosts()) {
      if (host.host() == absl::StrCat("host-", device))
        Violate(absl::StrCat(execution.name(), " takes part of lost ", host.host()));
    }
  }
}

void Simulation::SettleAndCheck() {
  settling_ = true;
  Run(60);
  if (controller_ == nullptr) return Violate("the server did not come back");
  const CallId executions = next_call_++, states = next_call_++;
  std::set<std::pair<std::string, int64_t>> current;  // uid, generation
  calls_[executions] = [&](const absl::StatusOr<Reply>& reply) {
    for (const v1::Execution& execution :
         std::get<v1::ListExecutionsResponse>(*reply).executions()) {
      if (execution.phase() == v1::Execution::SUCCEEDED && !execution.lost_device_ids().empty()) {
        ++succeeded_without_lost_;
      }
      // What committed and then lost a part of the target waits for it.
      const bool waits = execution.phase() == v1::Execution::COMMITTING &&
                         LostSome(execution.state_uid()) && execution.has_error();
      if (!execution.has_end_time() && !waits)
        Violate(absl::StrCat(execution.name(), " did not end: ", execution.ShortDebugString()));
    }
  };
  calls_[states] = [&](const absl::StatusOr<Reply>& reply) {
    for (const v1::State& state : std::get<v1::ListStatesResponse>(*reply).states()) {
      current.insert({state.uid(), state.generation()});
      CheckState(state);
      if (state.phase() != v1::State::READY && !LostSome(state.uid()))
        Violate(absl::StrCat(state.name(), " did not settle: ", state.ShortDebugString()));
    }
  };
  Handle(Call{.id = executions, .request = v1::ListExecutionsRequest()});
  Handle(Call{.id = states, .request = v1::ListStatesRequest()});
  for (const Worker& worker : workers_) {
    for (const auto& [key, held] : worker.model->held()) {
      const bool known = current.contains({held.state_uid, key.second});
      if ((held.phase != v1::SHARD_PHASE_READY || !known) && !LostSome(held.state_uid)) {
        Violate(absl::StrCat(worker.model->host(), " still holds ", key.first, " generation ",
                             key.second));
      }
    }
  }
}

}  // namespace remesh
