// SPDX-License-Identifier: Apache-2.0
// The laws, and how states lie over workers here: every host of the spec's topology holds one
// shard.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/server/simulation.h"

namespace remesh::server {

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
  // A journal that went back decides again, on what it knows.
  if (known->second != execution && rolled_back_ == 0)
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

// Remembers which hosts are told to hold a part of which generation.
void Simulation::NotePlacement(int worker, const v1::AttachResponse& command) {
  const bool first = command.has_assign_state() && !command.assign_state().assignment().committed();
  if (!first && !command.has_prepare()) return;
  const v1::Assignment& target =
      first ? command.assign_state().assignment() : command.prepare().target();
  if (target.shards().empty()) return;
  placements_[{target.state_uid(), target.generation()}]
             [first ? "" : command.prepare().attempt().execution()]
                 .insert(worker);
}

// Generations of which every part is there, on workers that are up or will be; or was until a
// machine died of which the server cannot know yet.
std::set<int64_t> Simulation::CompleteGenerations(const std::string& state_uid,
                                                  bool with_ghosts) const {
  std::set<int64_t> complete;
  for (auto it = placements_.lower_bound({state_uid, 0});
       it != placements_.end() && it->first.first == state_uid; ++it) {
    for (const auto& [execution, hosts] : it->second) {
      const bool whole = std::all_of(hosts.begin(), hosts.end(), [&](int host) {
        const Worker& worker = workers_[host];
        return worker.model->holds(state_uid, it->first.second, execution) ||
               (with_ghosts && worker.ghost != nullptr &&
                worker.ghost->holds(state_uid, it->first.second, execution));
      });
      if (whole) complete.insert(it->first.second);
    }
  }
  return complete;
}

// Whatever a worker is told to free: the last complete generation of a state goes only with it.
// A host keeps its device id, and nobody else ever has it.
void Simulation::CheckDeviceIds(int index, const v1::Welcome& welcome) {
  const int64_t id = welcome.device_ids_size() == 1 ? welcome.device_ids(0) : -1;
  if (id < 0) return Violate(absl::StrCat("host-", index, " has no device id"));
  if (rolled_back_ > 0) return;
  const int64_t before = std::exchange(device_ids_[index], id);
  if (before >= 0 && before != id) {
    Violate(absl::StrCat("host-", index, " had device id ", before, " and has ", id));
  }
  if (std::count(device_ids_.begin(), device_ids_.end(), id) > 1) {
    Violate(absl::StrCat("two hosts have device id ", id));
  }
}

void Simulation::OnCommand(int index, const v1::AttachResponse& command) {
  const std::string uid = command.has_retire()         ? command.retire().state_uid()
                          : command.has_abort()        ? command.abort().state_uid()
                          : command.has_forget_state() ? command.forget_state().state_uid()
                                                       : "";
  const bool may_free = !uid.empty() && !deleted_uids_.contains(uid);
  const bool whole = may_free && !CompleteGenerations(uid, false).empty();
  workers_[index].model->OnCommand(command);
  if (command.has_welcome()) CheckDeviceIds(index, command.welcome());
  if (whole && CompleteGenerations(uid, true).empty())
    Violate(absl::StrCat("the last complete generation is lost: ", command.ShortDebugString()));
}

// What callers are told never goes back, and lies complete on the workers.
void Simulation::CheckState(const v1::State& state) {
  uids_[state.name()] = state.uid();
  int64_t& told = generations_[state.uid()];
  if (state.generation() < told && rolled_back_ == 0)
    Violate(absl::StrCat(state.name(), " went back to generation ", state.generation()));
  told = rolled_back_ == 0 ? std::max(told, state.generation()) : state.generation();
  if (rolled_back_ > 0 && state.phase() != v1::State::READY) return;
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
      const bool incomplete = execution.phase() == v1::Execution::COMMITTING &&
                              LostSome(execution.state_uid()) && execution.has_error();
      const bool waits = rolled_back_ > 0 || incomplete;
      if (!execution.has_end_time() && !waits)
        Violate(absl::StrCat(execution.name(), " did not end: ", execution.ShortDebugString()));
    }
  };
  calls_[states] = [&](const absl::StatusOr<Reply>& reply) {
    for (const v1::State& state : std::get<v1::ListStatesResponse>(*reply).states()) {
      current.insert({state.uid(), state.generation()});
      CheckState(state);
      if (state.phase() != v1::State::READY && !LostSome(state.uid()) && rolled_back_ == 0)
        Violate(absl::StrCat(state.name(), " did not settle: ", state.ShortDebugString()));
    }
  };
  Handle(Call{.id = executions, .request = v1::ListExecutionsRequest()});
  Handle(Call{.id = states, .request = v1::ListStatesRequest()});
  if (rolled_back_ > 0) return;  // much is owed then: see CompleteGenerations()
  for (const Worker& worker : workers_) {
    for (const auto& [key, held] : worker.model->held()) {
      const bool known = current.contains({held.state_uid, key.second});
      const bool pending =
          held.phase == v1::SHARD_PHASE_PREPARED || held.phase == v1::SHARD_PHASE_VERIFIED;
      if ((pending || !known) && !LostSome(held.state_uid)) {
        Violate(absl::StrCat(worker.model->host(), " still holds ", key.first, " generation ",
                             key.second));
      }
    }
  }
}

}  // namespace remesh::server
