// SPDX-License-Identifier: Apache-2.0
// What callers ask for.
#include "absl/strings/str_cat.h"
#include "tests/simulation/server/simulation.h"

namespace remesh::server {

// The dead, and now and then one that lives; one host is left.
void Simulation::GiveUpHosts(v1::PlanOptions& options) {
  for (int i = 0; i < options_.workers; ++i) {
    if (options.lost_device_ids_size() + 1 == options_.workers) return;
    if (!workers_[i].alive || Chance(0.1)) options.add_lost_device_ids(i);
  }
}

void Simulation::Ask() {
  if (controller_ == nullptr) return;
  const std::string state =
      absl::StrCat("jobs/sim/states/s", random_() % static_cast<uint64_t>(options_.states));
  if (!uids_.contains(state)) return AskToCreate(state);
  if (Chance(0.05)) return AskToDelete(state);
  if (Chance(0.1)) return AskToUpdate(state);
  if (!running_.empty() && Chance(0.1)) {
    v1::CancelExecutionRequest cancel;
    cancel.set_name(running_.begin()->first);
    return Handle(Call{.id = next_call_++, .request = cancel});
  }
  AskToMove(state);
}

void Simulation::AskToCreate(const std::string& state) {
  CreateState create{.request = {}, .placed = Place(RandomSpec())};
  create.request.mutable_state()->set_name(state);
  create.request.mutable_state()->set_write_once(Chance(0.4));
  const CallId id = next_call_++;
  calls_[id] = [this, state, asked = handled_ + 1](const absl::StatusOr<Reply>& reply) {
    if (reply.ok()) return CheckCreated(std::get<v1::State>(*reply), asked);
    if (absl::IsAlreadyExists(reply.status())) uids_[state] = "";  // GetState tells
  };
  Handle(Call{.id = id, .request = std::move(create)});
}

// Every other caller waits until hosts have freed the state.
void Simulation::AskToDelete(const std::string& state) {
  const auto before = std::make_shared<v1::State>();
  v1::GetStateRequest get;
  get.set_name(state);
  const CallId get_id = next_call_++;
  calls_[get_id] = [before](const absl::StatusOr<Reply>& reply) {
    if (reply.ok()) *before = std::get<v1::State>(*reply);
  };
  Handle(Call{.id = get_id, .request = get});

  v1::DeleteStateRequest remove;
  remove.set_name(state);
  const CallId id = next_call_++;
  const bool waits = ++deletions_ % 2 == 0;
  remove.set_wait(waits && options_.planted != Planted::kDeletionNotWaited);
  calls_[id] = [this, before, state, waits](const absl::StatusOr<Reply>& reply) {
    if (!reply.ok()) return;
    // One that is waited for may be answered when another state has the name.
    if (before->uid().empty() || uids_[state] == before->uid()) uids_.erase(state);
    if (waits) CheckDeleted(*before, std::get<v1::DeleteStateResponse>(*reply));
  };
  Handle(Call{.id = id, .request = remove});
}

// No attached host has anything of the state. A host that is named is away, and one that is not
// named has nothing of it if the state lay there.
void Simulation::CheckDeleted(const v1::State& state, const v1::DeleteStateResponse& response) {
  ++deletions_waited_;
  absent_named_ += response.absent_hosts_size();
  // The server answers in the middle of an event: who attached later in it is not welcomed yet.
  std::set<std::string> welcomed, attached;
  for (const auto& [id, stream] : streams_) {
    if (stream.open && stream.welcomed) welcomed.insert(workers_[stream.worker].model->host());
  }
  const auto workers = AskNow<v1::ListWorkersResponse>(v1::ListWorkersRequest());
  for (const v1::Worker& worker : workers.workers()) {
    const std::string& host = worker.registration().host();
    if (worker.alive() && welcomed.contains(host)) attached.insert(host);
  }
  const std::set<std::string> named(response.absent_hosts().begin(), response.absent_hosts().end());
  for (const std::string& host : named) {
    if (attached.contains(host)) Violate(absl::StrCat(host, " is attached and named as absent"));
  }
  if (state.uid().empty()) return;  // it had been deleted before this call
  for (const Worker& worker : workers_) {
    const std::string& host = worker.model->host();
    if (named.contains(host) || (!attached.contains(host) && !LiesOn(state, host))) continue;
    for (const auto& [key, held] : worker.model->held()) {
      if (held.state_uid != state.uid()) continue;
      // What moved away is retired, and that command may be on its way still.
      if (key.second < state.generation() && !LiesOn(state, host)) continue;
      Violate(absl::StrCat(host, " holds generation ", key.second, " of ", state.name(),
                           ", whose deletion was waited for"));
    }
  }
}

void Simulation::AskToMove(const std::string& state) {
  v1::StartExecutionRequest start;
  start.set_state(state);
  start.set_expected_generation(std::max<int64_t>(generations_[uids_[state]], 1));
  start.mutable_targets();
  // Without a name it stays where it is.
  if (Chance(0.9)) start.mutable_targets()->add_arrays()->set_name("w");
  if (Chance(0.3)) GiveUpHosts(*start.mutable_options());
  start.set_lose_absent_hosts(Chance(0.3));
  const CallId id = next_call_++;
  calls_[id] = [this, state, start, asked = handled_ + 1](const absl::StatusOr<Reply>& reply) {
    if (!reply.ok()) return;
    const v1::Execution& execution = std::get<v1::Execution>(*reply);
    CheckStarted(start, execution);
    if (Stays(execution)) return;
    running_[execution.name()] = state;
    asked_[execution.name()] = asked;
    CheckLostHostsAreSpared(execution);
  };
  Handle(Call{.id = id, .request = std::move(start)});

  v1::GetStateRequest get;
  get.set_name(state);
  const CallId get_id = next_call_++;
  calls_[get_id] = [this, state](const absl::StatusOr<Reply>& reply) {
    if (reply.ok()) return CheckState(std::get<v1::State>(*reply));
    uids_.erase(state);  // deleted, by a call whose answer was lost
  };
  Handle(Call{.id = get_id, .request = get});
}

}  // namespace remesh::server
