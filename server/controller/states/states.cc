// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/states.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/controller/states/create_state.h"
#include "server/controller/states/host_log.h"
#include "server/controller/states/update_state.h"
#include "server/controller/states/write_once.h"
#include "server/controller/values/digest.h"
#include "server/controller/values/names.h"
#include "server/controller/values/uid.h"

namespace remesh::server {
namespace {

absl::Status AlreadyExists(const std::string& name) {
  return StateError(absl::StatusCode::kAlreadyExists, "ALREADY_EXISTS", name, "already exists");
}

void WarnIf(std::string line, Outbox& out) {
  if (!line.empty()) out.Warn(std::move(line));
}

}  // namespace

States::States(const ControllerOptions& options, const RandomBits& random,
               const JournalQueue& journal, const Membership& membership, const Commands& commands)
    : random_(random),
      journal_(journal),
      membership_(membership),
      commands_(commands),
      assignments_(membership.workers(), commands),
      deletions_(options, membership, commands),
      limits_(options, registry_, creates_) {}

void States::Restore(const Restored& restored) {
  deletions_.Restore(restored);
  for (const auto& [name, state] : restored.states) {
    StateEntry entry{.declared = state.state,
                     .placed = state.placed,
                     .request_id = state.request_id,
                     .request_digest = state.request_digest};
    if (state.write_committed) {
      entry.once_commit = OnceCommit::kDurable;
    } else if (state.state.write_once()) {
      for (const auto& [host, part] : state.placed->hosts) entry.unattached_hosts.insert(host);
    }
    entry.declared.clear_spec();
    registry_.Add(std::move(entry));
  }
}

absl::Status States::CheckCreate(const CreateState& request) const {
  RETURN_IF_ERROR(server::CheckCreate(request, journal_, membership_));
  return limits_.CheckCreate(request.request.state().name(), *request.placed);
}

// Joins a repeated request_id to the state that it created or is creating. Returns whether the call
// is answered, or will be once the state of that name is on disk.
absl::StatusOr<bool> States::JoinCreate(CallId call, const v1::CreateStateRequest& request,
                                        const std::string& digest, Outbox& out) {
  const std::string& name = request.state().name();
  const StateEntry* state = registry_.Find(name);
  const auto pending = creates_.find(name);
  if (state == nullptr && pending == creates_.end()) return false;
  const StateEntry& known = state != nullptr ? *state : pending->second.entry;
  const bool is_repeated = !request.request_id().empty() &&
                           known.request_id == request.request_id() &&
                           known.request_digest == digest && !request.validate_only();
  if (state == nullptr) {
    // The answer waits: a caller that learns that the state exists may look it up immediately.
    (is_repeated ? pending->second.calls : pending->second.refused).push_back(call);
  } else if (is_repeated) {
    out.Reply(call, ToProto(*state, membership_.workers()));
  } else {
    return AlreadyExists(name);
  }
  return true;
}

std::optional<Reliance> States::Create(CallId call, const CreateState& request, Moment now,
                                       Outbox& out) {
  if (!request.misfit.ok()) {
    out.Reply(call, WhyMisfit(request.misfit, membership_.AwaitedHosts(now)));
    return std::nullopt;
  }
  const std::string digest = Digest(request.request);
  const absl::StatusOr<bool> joined = JoinCreate(call, request.request, digest, out);
  const absl::Status status = !joined.ok() || *joined ? joined.status() : CheckCreate(request);
  if (!status.ok()) out.Reply(call, status);
  if (!status.ok() || *joined) return std::nullopt;

  StateEntry entry = NewEntry(request, digest, now);
  if (request.request.validate_only()) {
    out.Reply(call, ToProto(entry, membership_.workers()));
    return std::nullopt;
  }
  const uint64_t high = random_();
  entry.declared.set_uid(MakeUid(high, random_()));
  Reliance reliance{
      .hosts = {}, .records = RecordsOfNew(entry), .then = StateCreated{.name = entry.name()}};
  for (const auto& [host, part] : request.placed->hosts) reliance.hosts.insert(host);
  creates_[entry.name()] = {.calls = {call}, .refused = {}, .entry = entry};
  return reliance;
}

void States::OnCreated(const StateCreated& created, Outbox& out) {
  const std::string& name = created.name;
  auto pending = creates_.extract(name);
  const StateEntry& state = registry_.Add(std::move(pending.mapped().entry));
  for (const auto& [host, part] : state.placed->hosts) assignments_.Send(state, host, out);
  for (const std::string& host : wanted_.HostsOf(name)) assignments_.SendAbsence(state, host, out);
  out.Reply(pending.mapped().calls, ToProto(state, membership_.workers()));
  for (const CallId call : pending.mapped().refused) out.Reply(call, AlreadyExists(name));
  out.Note(absl::StrCat("created ", name));
  out.Touch(name);
}

std::string States::CreatingOn(const std::string& host) const {
  for (const auto& [name, pending] : creates_) {
    if (pending.entry.placed->hosts.contains(host)) return name;
  }
  return "";
}

void States::Update(CallId call, const v1::UpdateStateRequest& request, Outbox& out) {
  absl::Status bad = CheckUpdateRequest(request);
  const auto found = FindState("name", request.name(), registry_);
  if (bad.ok()) bad = found.status();
  if (bad.ok()) bad = CheckUpdate(request, **found, membership_.workers());
  if (!bad.ok()) return out.Reply(call, bad);

  StateEntry& state = *registry_.Find(request.name());
  if (state.updates.count == 0 && SetsNothingNew(request, state)) {
    v1::UpdateStateResponse response;
    *response.mutable_state() = ToProto(state, membership_.workers());
    return out.Reply(call, std::move(response));
  }
  if (absl::Status room = journal_.CheckRoom(); !room.ok()) return out.Reply(call, room);
  const v1::State update = ToUpdate(request);
  ++state.updates.count;
  state.updates.last = update;
  out.Touch(state.name());
  out.Persist({UpdateRecord(state.name(), update)},
              StateUpdated{.call = call, .name = state.name(), .update = update});
}

void States::OnUpdated(const StateUpdated& updated, Outbox& out) {
  StateEntry* state = registry_.Find(updated.name);
  if (state == nullptr || state->uid() != updated.update.uid()) {
    return out.Reply(updated.call, StateError(absl::StatusCode::kNotFound, "NOT_FOUND",
                                              updated.name, "was deleted"));
  }
  --state->updates.count;
  TakeUpdate(updated.update, *state);
  v1::UpdateStateResponse response;
  *response.mutable_state() = ToProto(*state, membership_.workers());
  out.Reply(updated.call, std::move(response));
  out.Touch(state->name());
}

void States::NoteCommitted(const v1::StateManifest& manifest) {
  if (!manifest.write_committed() || manifest.generation() != 1) return;
  StateEntry* state = registry_.Find(manifest.state());
  if (state != nullptr && state->uid() == manifest.state_uid()) state->told_committed = true;
}

void States::CommitWrites(const std::set<std::string>& changed, Outbox& out) {
  for (const std::string& name : changed) {
    StateEntry* state = registry_.Find(name);
    if (state == nullptr || !IsToCommit(*state, membership_.workers())) continue;
    const StateKey key{.name = name, .uid = state->uid()};
    state->once_commit = OnceCommit::kOnItsWay;
    out.Persist({WriteCommittedRecord(key)}, WriteCommitted{.state = key});
  }
}

void States::OnWriteCommitted(const WriteCommitted& committed, Outbox& out) {
  StateEntry* state = registry_.Find(committed.state.name);
  if (state == nullptr || state->uid() != committed.state.uid) return;  // deleted since
  const std::set<std::string> back = HeldBackHosts(*state, membership_.workers());
  state->once_commit = OnceCommit::kDurable;
  for (const auto& [host, part] : state->placed->hosts) {
    if (back.contains(host)) {
      assignments_.Send(*state, host, out);
    } else {
      commands_.Send(host, ToCommitWrite(*state), out);
    }
  }
  for (const std::string& host : wanted_.HostsOf(state->name()))
    assignments_.SendAbsence(*state, host, out);
  out.Note(absl::StrCat("committed ", state->name(), ", which is written once"));
  out.Touch(state->name());
}

Deletion States::Delete(const DeletionCall& call, const std::string& name,
                        const std::map<StateKey, std::set<std::string>>& gone) {
  if (StateEntry* state = registry_.Find(name)) state->deleting = true;
  Deletion deletion = deletions_.Delete(call, name, gone);
  for (const Record& record :
       {NoStateRecord(name), NoNextStateRecord(name), NoCreateRequestRecord(name),
        NoUpdateRecord(name), NoWriteCommittedRecord(name)}) {
    deletion.records.push_back(record);
  }
  return deletion;
}

void States::OnDeleted(const StateDeleted& deleted, Outbox& out) {
  deletions_.OnDeleted(deleted, out);
  registry_.Remove(deleted.name);
  wanted_.DropState(deleted.name);
  out.Touch(deleted.name);
}

void States::BeginExecution(const std::string& name, const std::string& execution,
                            std::shared_ptr<const PlacedState> target) {
  StateEntry& state = *registry_.Find(name);
  state.execution = execution;
  state.target = std::move(target);
}

// Does not change what hosts hold of the target: only the workers' own reports do.
void States::EndExecution(const ExecutionEnd& end, Outbox& out) {
  StateEntry& state = *registry_.Find(end.state);
  state.execution.clear();
  state.target = nullptr;
  state.declared.set_abandoned_generation(end.abandoned_generation);
  if (end.target != nullptr) {
    const std::vector<std::string> wanted = wanted_.HostsOf(end.state);
    std::set<std::string> others(wanted.begin(), wanted.end());
    for (const auto& [host, part] : state.placed->hosts) others.insert(host);
    state.declared.set_generation(end.generation);
    registry_.Place(state, end.target);
    // A host that had shards may still have the old assignment: it got neither Commit nor Retire if
    // it held nothing, or was sent the assignment again before the end.
    for (const std::string& host : others) assignments_.SendAbsence(state, host, out);
  }
  out.Touch(end.state);
}

void States::SetNewerHosts(const StateKey& key, std::set<std::string> hosts, Outbox& out) {
  StateEntry* state = registry_.Find(key.name);
  if (state == nullptr || state->uid() != key.uid || state->newer_hosts == hosts) return;
  state->newer_hosts = std::move(hosts);
  out.Touch(key.name);
}

void States::OnHostAway(const HostAway& away, Outbox& out) {
  wanted_.DropHost(away.host);
  const std::vector<std::string> states = registry_.NamesOn(away.host);
  for (const std::string& name : states) out.Touch(name);
  if (membership_.workers().alive(away.host)) return;
  std::string line = AwayLine(away, states, registry_, membership_.workers());
  // A warning if the journal has the host, else a note.
  if (membership_.durable(away.host)) {
    out.Warn(std::move(line));
  } else {
    out.Note(std::move(line));
  }
  deletions_.OnHostAway(away.host, out);
}

void States::Assign(const std::string& host, Outbox& out) {
  const WorkerRegistry& workers = membership_.workers();
  for (const std::string& name : registry_.NamesOn(host)) {
    StateEntry& state = *registry_.Find(name);
    assignments_.OnAttached(host, state, out);
    if (!IsHeldBack(state, workers, host)) assignments_.Send(state, host, out);
    if (workers.alive(host)) WarnIf(ReturnedWithoutLine(host, state, workers), out);
    out.Touch(name);
  }
  WarnIf(TooOldLine(host, registry_, workers), out);
}

void States::OnWanted(const std::string& host, const std::string& name, Outbox& out) {
  // The trainer then waits until its deadline.
  if (!ParseStateName("state", name).ok()) return;
  wanted_.Add(host, name);
  // A host with shards was informed when the state was created or moved, or when the host attached.
  if (const StateEntry* state = registry_.Find(name)) assignments_.SendAbsence(*state, host, out);
}

}  // namespace remesh::server
