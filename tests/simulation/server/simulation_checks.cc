// SPDX-License-Identifier: Apache-2.0
// The laws, and how states lie over workers here: every host of the spec's topology holds one box
// of the array; where there are copies, the next host's box too.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/simulation/server/simulation.h"

namespace remesh::server {

std::vector<TestBox> Simulation::BoxesOf(const v1::StateSpec& spec) const {
  std::vector<TestBox> boxes;
  const auto& hosts = spec.topology().hosts();
  for (int i = 0; i < hosts.size(); ++i) {
    boxes.push_back({hosts[i].name(), hosts[i].device_ids(0), i, i + 1});
    const int next = (i + 1) % hosts.size();
    if (options_.copies && next != i) {
      boxes.push_back({hosts[i].name(), hosts[i].device_ids(0), next, next + 1});
    }
  }
  return boxes;
}

namespace {

// The same boxes, of which none counts as a replica of another.
planner::Layout WithoutReplicas(const planner::Layout& layout) {
  planner::Layout apart = layout;
  std::vector<planner::Tile> tiles;
  for (int32_t position = 0; position < layout.device_count; ++position) {
    planner::Tile tile = layout.tiles[layout.tile_of[position]];
    tile.subgroup = position;
    tiles.push_back(std::move(tile));
    apart.tile_of[position] = position;
  }
  apart.tiles = planner::TileList(std::move(tiles));
  planner::IndexPositions(apart);
  return apart;
}

std::shared_ptr<const proto::StateLayout> WithoutReplicas(proto::StateLayout layout) {
  for (proto::PlacedArray& array : layout.arrays) {
    array.placement.layout =
        std::make_shared<const planner::Layout>(WithoutReplicas(*array.placement.layout));
  }
  return std::make_shared<const proto::StateLayout>(std::move(layout));
}

}  // namespace

std::shared_ptr<const PlacedState> Simulation::Place(const v1::StateSpec& spec) const {
  auto placed = std::make_shared<PlacedState>(*PlaceBoxes(BoxesOf(spec)));
  placed->spec = spec;
  placed->arrays.Add()->set_name("w");
  if (!options_.layouts) placed->layout = WithoutReplicas(*placed->layout);
  return placed;
}

v1::StateSpec Simulation::RandomSpec(const std::vector<int64_t>& lost) {
  v1::StateSpec spec;
  const auto left = static_cast<size_t>(options_.workers) - lost.size();
  const int least = options_.copies && left > 1 ? 2 : 1;
  while (spec.topology().hosts_size() < least) {
    spec.mutable_topology()->clear_hosts();
    for (int i = 0; i < options_.workers; ++i) {
      if (std::find(lost.begin(), lost.end(), i) != lost.end() || Chance(0.5)) continue;
      v1::Host& host = *spec.mutable_topology()->add_hosts();
      host.set_name(absl::StrCat("host-", i));
      host.add_device_ids(i);
    }
  }
  return spec;
}

// No host commits before all have verified, and a generation is committed by one execution only.
void Simulation::CheckCommit(const v1::Commit& commit) {
  CheckSource(commit);
  const std::string& execution = commit.attempt().execution();
  const std::pair<std::string, int64_t> target = {moved_uids_[execution], commit.generation()};
  writers_[target].insert(execution);
  if (committed_by_.try_emplace(target, execution).first->second != execution) {
    Violate(
        absl::StrCat(commit.state(), " generation ", commit.generation(), " is committed twice"));
  }
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
  if (target.hosts() < 1) Violate("a host is not told on how many hosts the state lies");
  const std::string execution = first ? "" : command.prepare().attempt().execution();
  const auto asked = asked_.find(execution);
  if (asked != asked_.end() && DrainedBefore(worker, asked->second))
    Violate(absl::StrCat(execution, " places shards on drained host-", worker));
  placements_[{.state_uid = target.state_uid(),
               .generation = target.generation(),
               .execution = execution}]
      .insert(worker);
}

int Simulation::IndexOf(const std::string& host) {
  return std::stoi(host.substr(std::string("host-").size()));
}

bool Simulation::LiesOn(const v1::State& state, const std::string& host) {
  const auto& hosts = state.spec().topology().hosts();
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const v1::Host& other) { return other.name() == host; });
}

Part Simulation::PartOf(const v1::State& state, const std::string& writer) {
  return {.state_uid = state.uid(), .generation = state.generation(), .execution = writer};
}

// Trainers write the first generation, executions the others.
std::set<std::string> Simulation::WritersOf(const v1::State& state) const {
  if (state.generation() == 1) return {""};
  const auto found = writers_.find({state.uid(), state.generation()});
  return found == writers_.end() ? std::set<std::string>() : found->second;
}

bool Simulation::Deleted(const std::string& state_uid) const {
  const std::string prefix = "deleted/";
  for (auto it = disk_.records.lower_bound(prefix);
       it != disk_.records.end() && it->first.starts_with(prefix); ++it) {
    if (it->first.ends_with("@" + state_uid)) return true;
  }
  return false;
}

// Whether the host holds its part, or the server had to believe so at its event `unheard_at`.
bool Simulation::HoldsOr(int host, const Part& part, uint64_t unheard_at) const {
  return workers_[host].model->holds(part) || workers_[host].losses.unheard(part, unheard_at);
}

// Whether the part is of a generation that an operator gave up: by ResolveExecution, as the journal
// says, or by DiscardShards on one of its hosts.
bool Simulation::GivenUp(const Part& part, const std::set<int>& hosts) const {
  const std::string prefix = "state/";
  for (auto it = disk_.records.lower_bound(prefix);
       it != disk_.records.end() && it->first.starts_with(prefix); ++it) {
    v1::State state;
    if (!state.ParseFromString(it->second) || state.uid() != part.state_uid) continue;
    if (part.generation > state.generation() && part.generation <= state.abandoned_generation()) {
      return true;
    }
  }
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](int host) { return workers_[host].losses.discarded(part); });
}

// Whether some generation is there with every part: on workers that are up or will be, or as far as
// the server could know.
bool Simulation::HasComplete(const std::string& state_uid, uint64_t unheard_at) const {
  for (auto it = placements_.lower_bound({.state_uid = state_uid});
       it != placements_.end() && it->first.state_uid == state_uid; ++it) {
    const bool whole = std::all_of(it->second.begin(), it->second.end(),
                                   [&](int host) { return HoldsOr(host, it->first, unheard_at); });
    if (whole && !GivenUp(it->first, it->second)) return true;
  }
  return false;
}

// A host keeps its device id until it is forgotten, and no other host ever has it.
void Simulation::CheckDeviceIds(int index, const v1::Welcome& welcome) {
  const int64_t id = welcome.device_ids_size() == 1 ? welcome.device_ids(0) : -1;
  if (id < 0) return Violate(absl::StrCat("host-", index, " has no device id"));
  // A server whose journal is behind writes nothing, so its successor may assign others.
  if (controller_ != nullptr && controller_->journal_behind()) return;
  const int64_t before = std::exchange(device_ids_[index], id);
  if (before >= 0 && before != id) {
    Violate(absl::StrCat("host-", index, " had device id ", before, " and has ", id));
  }
  if (device_owners_.try_emplace(id, index).first->second != index) {
    Violate(absl::StrCat("two hosts have had device id ", id));
  }
}

// Whatever a worker is told to free: the last complete generation of a state goes only with it.
void Simulation::OnCommand(int index, const v1::AttachResponse& command, uint64_t sent) {
  const std::string uid = command.has_retire()         ? command.retire().state_uid()
                          : command.has_abort()        ? command.abort().state_uid()
                          : command.has_forget_state() ? command.forget_state().state_uid()
                                                       : "";
  Worker& worker = workers_[index];
  const bool whole = !uid.empty() && !Deleted(uid) && HasComplete(uid, Losses::kNever);
  std::set<Part> gone = worker.model->parts(true);
  NoteCommitted(command);
  worker.model->OnCommand(command);
  if (command.has_welcome()) CheckDeviceIds(index, command.welcome());
  if (uid.empty()) return;
  for (const Part& part : worker.model->parts(true)) gone.erase(part);
  worker.losses.Free(gone);
  if (whole && !HasComplete(uid, sent))
    Violate(absl::StrCat("the last complete generation is lost: ", command.ShortDebugString()));
}

// Hosts of the state without their part of its generation, as `writer` wrote it, for no reason: a
// part that is lost is one, unless the server says that the state is READY though it was sent.
std::vector<std::string> Simulation::Lacking(const v1::State& state,
                                             const std::string& writer) const {
  const Part part = PartOf(state, writer);
  std::vector<std::string> lacking;
  for (const v1::Host& host : state.spec().topology().hosts()) {
    const int index = IndexOf(host.name());
    const bool told_ready = state.phase() == v1::State::READY;
    const bool excused =
        HoldsOr(index, part, handled_) || (!told_ready && workers_[index].losses.lost(part));
    if (!excused) lacking.push_back(host.name());
  }
  return lacking;
}

// What callers were answered is on the workers: all of it, as one execution wrote it.
void Simulation::CheckLies(const v1::State& state) {
  const bool committed = state.generation() > 1 || committed_.contains(state.uid());
  if (!committed && state.phase() != v1::State::READY) return;  // being built
  std::string lacking;
  for (const std::string& writer : WritersOf(state)) {
    const std::vector<std::string> hosts = Lacking(state, writer);
    if (hosts.empty()) return;
    absl::StrAppend(&lacking, " ", absl::StrJoin(hosts, " "), " as ", writer, " wrote it;");
  }
  Violate(absl::StrCat(state.name(), " generation ", state.generation(), " ",
                       v1::State::Phase_Name(state.phase()), " is not on", lacking));
}

// What callers are told never goes back, and is there.
void Simulation::CheckState(const v1::State& state) {
  ++seen_[state.phase()];
  CheckWrites(WithPlantedPhase(state));
  uids_[state.name()] = state.uid();
  int64_t& told = generations_[state.uid()];
  if (state.generation() < told)
    Violate(absl::StrCat(state.name(), " went back to generation ", state.generation()));
  told = std::max(told, state.generation());
  CheckOnce(state);
  CheckStep(state);
  CheckLies(state);
}

// Each of its hosts is known to the server, and none was drained before.
void Simulation::CheckCreated(const v1::State& state, uint64_t asked) {
  CheckState(state);
  const auto workers = AskNow<v1::ListWorkersResponse>(v1::ListWorkersRequest());
  for (const v1::Host& host : state.spec().topology().hosts()) {
    if (DrainedBefore(IndexOf(host.name()), asked))
      Violate(absl::StrCat(state.name(), " is created on drained ", host.name()));
    const bool known = std::any_of(
        workers.workers().begin(), workers.workers().end(),
        [&](const v1::Worker& worker) { return worker.registration().host() == host.name(); });
    if (!known) Violate(absl::StrCat(state.name(), " is created on forgotten ", host.name()));
  }
}

bool Simulation::Stays(const v1::Execution& execution) {
  return execution.target_generation() == execution.source_generation();
}

// A move to where the state is has ended, and asked nothing of anyone. One that names no array is
// such a move.
void Simulation::CheckStays(const v1::Execution& execution) {
  const bool ended = execution.phase() == v1::Execution::SUCCEEDED && execution.has_end_time();
  const bool alone = execution.hosts().empty() && execution.lost_device_ids().empty();
  if (!ended || !alone || moved_uids_.contains(execution.name()))
    Violate(absl::StrCat("nothing was to move: ", execution.ShortDebugString()));
}

// The start got what it asked for.
void Simulation::CheckStarted(const v1::StartExecutionRequest& start,
                              const v1::Execution& execution) {
  const bool stays = Stays(execution);
  if (stays) CheckStays(execution);
  if (start.targets().arrays().empty() && !stays)
    Violate(absl::StrCat(execution.name(), " moves what has no target"));
  if (execution.source_generation() != start.expected_generation())
    Violate(absl::StrCat(execution.name(), " moves another generation"));
  stayed_ += stays;
  const int named = start.options().lost_device_ids_size();
  const bool more = execution.lost_device_ids_size() > named;
  if (more && !start.lose_absent_hosts())
    Violate(absl::StrCat(execution.name(), " gives up hosts unasked"));
  gave_up_absent_ += more;
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

}  // namespace remesh::server
