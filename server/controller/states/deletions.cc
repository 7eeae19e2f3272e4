// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/deletions.h"

#include <utility>

namespace remesh::server {
namespace {

bool Reports(const WorkerEntry& worker, const StateKey& state) {
  const auto held = worker.manifests.lower_bound({.state = state.name, .state_uid = state.uid});
  return held != worker.manifests.end() && held->first.state == state.name &&
         held->first.state_uid == state.uid;
}

}  // namespace

Deletions::Deletions(const ControllerOptions& options, const Membership& membership,
                     const Commands& commands)
    : membership_(membership),
      commands_(commands),
      tombstones_({.states = options.tombstones_max, .hosts = options.tombstone_hosts_max}) {}

bool Deletions::Join(const DeletionCall& call, const std::string& name) {
  const auto found = on_the_way_.find(name);
  if (found == on_the_way_.end()) return false;
  found->second.push_back(call);
  return true;
}

bool Deletions::JoinPast(const DeletionCall& call, const StateKey& state, Outbox& out) {
  std::set<StateKey> states = tombstones_.WaitingOf(state.name);
  const bool one = !state.uid.empty();
  if (one) std::erase_if(states, [&](const StateKey& each) { return each.uid != state.uid; });
  if (states.empty()) return false;
  Answer(call, states, out);
  return true;
}

Deletion Deletions::Delete(const DeletionCall& call, const std::string& name,
                           const std::map<StateKey, std::set<std::string>>& gone) {
  // What is to be forgotten of earlier tombstones must not come after new ones.
  Deletion deletion{.records = confirmations_.Take(), .then = {.name = name, .gone = {}}};
  for (const auto& [state, hosts] : gone) {
    // If it was deleted before, the journal has a row for each host of that deletion. Such a row
    // must not outlive that of the state.
    for (const std::string& host : hosts) tombstones_.Await(host, state);
    const Tombstone* earlier = tombstones_.Find(state);
    const Tombstone tombstone = tombstones_.Make(earlier != nullptr ? earlier->hosts : hosts);
    for (Record& record : TombstoneRecords(state, tombstone)) {
      deletion.records.push_back(std::move(record));
    }
    deletion.then.gone[state] = tombstone;
  }
  on_the_way_[name].push_back(call);
  return deletion;
}

void Deletions::OnDeleted(const StateDeleted& deleted, Outbox& out) {
  for (const auto& [state, tombstone] : deleted.gone) {
    confirmations_.Add(tombstones_.Add(state, tombstone), out);
    for (const std::string& host : tombstone.hosts) {
      const WorkerEntry* worker = membership_.workers().Find(host);
      if (worker != nullptr && !Reports(*worker, state)) Ask(host, state, out);
    }
    AwaitOthers(state, tombstone, out);
  }
}

// Waits for hosts that attached with something of the state while the deletion was written, such as
// what an attempt left that is being aborted.
void Deletions::AwaitOthers(const StateKey& state, const Tombstone& tombstone, Outbox& out) {
  for (const auto& [host, worker] : membership_.workers().workers()) {
    if (!worker.alive() || tombstone.hosts.contains(host) || !Reports(worker, state)) continue;
    tombstones_.Await(host, state);
    Ask(host, state, out);
  }
}

void Deletions::Answer(const StateDeleted& deleted, Outbox& out) {
  std::set<StateKey> states;
  for (const auto& [state, tombstone] : deleted.gone) states.insert(state);
  const auto calls = on_the_way_.extract(deleted.name);
  for (const DeletionCall& call : calls.mapped()) Answer(call, states, out);
}

// Answers the call now, or later if it waits.
void Deletions::Answer(const DeletionCall& call, const std::set<StateKey>& states, Outbox& out) {
  const std::map<StateKey, Remains> remains = RemainsOf(states);
  if (call.wait) return waits_.Begin(call.call, remains, out);
  AnswerDeletion(call.call, remains, out);
}

std::map<StateKey, Remains> Deletions::RemainsOf(const std::set<StateKey>& states) const {
  std::map<StateKey, Remains> remains;
  for (const StateKey& state : states) {
    const Tombstone* tombstone = tombstones_.Find(state);
    if (tombstone == nullptr) continue;
    for (const std::string& host : tombstone->hosts) {
      const bool attached = membership_.workers().alive(host);
      (attached ? remains[state].attached : remains[state].absent).insert(host);
    }
  }
  return remains;
}

void Deletions::OnReported(const std::string& host, const StateKey& state) {
  tombstones_.Await(host, state);
  waits_.OnHolds(host, state);
}

void Deletions::OnForgotten(const std::string& host, const StateKey& state, Outbox& out) {
  confirmations_.Add(tombstones_.Confirm(host, state), out);
  waits_.OnConfirmed(host, state, out);
}

void Deletions::DropCall(CallId dropped) {
  for (auto& [name, calls] : on_the_way_) {
    std::erase_if(calls, [&](const DeletionCall& call) { return call.call == dropped; });
  }
  waits_.Drop(dropped);
}

void Deletions::OnRegistered(const v1::Register& registration, Outbox& out) {
  waits_.OnAttached(registration.host());
  std::set<StateKey> states = tombstones_.WaitingFor(registration.host());
  for (const v1::StateManifest& manifest : registration.manifests()) {
    states.erase({manifest.state(), manifest.state_uid()});
  }
  for (const StateKey& state : states) Ask(registration.host(), state, out);
}

// Asks the host to free everything of the state, and to answer.
void Deletions::Ask(const std::string& host, const StateKey& state, Outbox& out) const {
  v1::AttachResponse command;
  command.mutable_forget_state()->set_state(state.name);
  command.mutable_forget_state()->set_state_uid(state.uid);
  commands_.Send(host, std::move(command), out);
}

}  // namespace remesh::server
