// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/states.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/states/state_labels.h"
#include "server/controller/states/update_state.h"
#include "server/controller/states/write_once.h"
#include "server/controller/values/digest.h"
#include "server/controller/values/names.h"
#include "server/controller/values/uid.h"

namespace remesh::server {
namespace {

// The state as requested, with a new uid.
StateEntry NewEntry(const CreateState& request, const std::string& digest, Moment now) {
  const v1::State& asked = request.request.state();
  StateEntry entry{.declared = {},
                   .placed = request.placed,
                   .request_id = request.request.request_id(),
                   .request_digest = digest};
  entry.declared.set_name(asked.name());
  entry.declared.set_generation(1);
  entry.declared.set_step(asked.step());
  entry.declared.set_write_once(asked.write_once());
  *entry.declared.mutable_labels() = asked.labels();
  *entry.declared.mutable_create_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(now.wall));
  return entry;
}

// The journal's records of a new state.
std::vector<Record> RecordsOf(const StateEntry& entry) {
  return {StateRecord(entry.declared, entry.placed->spec),
          CreateRequestRecord(entry.name(), entry.request_id, entry.request_digest)};
}

// The state's bytes now or, if that is more, after its running move has committed.
int64_t BytesOf(const StateEntry& state) {
  const int64_t now = state.placed->total_bytes;
  return state.target == nullptr ? now : std::max(now, state.target->total_bytes);
}

// Just after a start of the server the devices of the spec may be those of hosts on their way back.
absl::Status WhyMisfit(const absl::Status& misfit, const std::vector<std::string>& awaited) {
  constexpr size_t kNamed = 16;
  if (awaited.empty()) return misfit;
  const size_t named = std::min(awaited.size(), kNamed);
  const std::string hosts =
      absl::StrCat(absl::StrJoin(awaited.begin(), awaited.begin() + named, ", "),
                   named < awaited.size() ? ", ..." : "");
  const std::string count = absl::StrCat(awaited.size());
  return MakeError(
      absl::StatusCode::kUnavailable,
      absl::StrCat(
          std::string(misfit.message()), "; ", count,
          " known hosts have not attached again since the server started, so ask again: ", hosts),
      {.reason = "HOSTS_AWAITED", .metadata = {{"count", count}, {"hosts", hosts}}});
}

absl::Status JobQuota(const std::string& job, const char* quota, int64_t limit, int64_t use) {
  const std::string most = absl::StrCat(limit), would = absl::StrCat(use);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat(job, " may have ", quota, " ", most, ", and with this it would have ", would),
      {.reason = "JOB_QUOTA",
       .metadata = {{"job", job}, {"quota", quota}, {"limit", most}, {"use", would}}});
}

absl::Status AlreadyExists(const std::string& name) {
  return StateError(absl::StatusCode::kAlreadyExists, "ALREADY_EXISTS", name, "already exists");
}

}  // namespace

States::States(const ControllerOptions& options, const RandomBits& random,
               const JournalQueue& journal, const Membership& membership, const Commands& commands)
    : options_(options),
      random_(random),
      journal_(journal),
      membership_(membership),
      commands_(commands),
      deletions_(options, membership, commands) {}

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

absl::Status States::CheckQuota(const std::string& name, int64_t more_states,
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

namespace {

int64_t EntriesOf(const PlacedState& placed) { return placed.arrays.size() + placed.total_shards; }

// As BytesOf().
int64_t EntriesOf(const StateEntry& state) {
  const int64_t now = EntriesOf(*state.placed);
  return state.target == nullptr ? now : std::max(now, EntriesOf(*state.target));
}

// Most bytes that the worker's buffers may take. 0: it did not say, or they are in GPUs.
int64_t BufferBytes(const v1::Register& registration) {
  int64_t bytes = 0;
  for (const v1::WorkerDevice& device : registration.devices()) {
    if (device.kind() != v1::WorkerDevice::KIND_HOST || device.memory_bytes() <= 0) return 0;
    bytes = AddBytes(bytes, device.memory_bytes());
  }
  return bytes;
}

// Most bytes of the state that the host may hold: in the worker's buffers or, unless it is written
// once, lent by a trainer, which takes nothing of those. 0: not known.
int64_t MemoryOf(const v1::Register& registration, const v1::State& state) {
  const int64_t buffers = BufferBytes(registration);
  if (buffers == 0 || state.write_once()) return buffers;
  const int64_t lendable = registration.lendable_bytes();
  return lendable > 0 ? std::max(buffers, lendable) : 0;
}

// RESOURCE_EXHAUSTED (HOST_MEMORY) if the host could not hold its part of the state even if it held
// nothing else.
absl::Status CheckMemory(const WorkerRegistry& workers, const std::string& host,
                         const v1::State& state, int64_t needed) {
  const int64_t memory = MemoryOf(workers.Find(host)->registration, state);
  if (memory == 0 || needed <= memory) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("host ", host, " would hold ", needed, " bytes of the state, and has room for ",
                   memory,
                   " at most (memory_limit_bytes or the file system of buffer_directory, and the "
                   "machine's memory): spread the state over more hosts"),
      {.reason = "HOST_MEMORY",
       .metadata = {{"host", host},
                    {"needed_bytes", absl::StrCat(needed)},
                    {"memory_bytes", absl::StrCat(memory)}}});
}

}  // namespace

absl::Status States::CheckCreate(const CreateState& request) const {
  const v1::State& state = request.request.state();
  RETURN_IF_ERROR(ParseStateName("state.name", state.name()).status());
  RETURN_IF_ERROR(journal_.CheckRoom());
  RETURN_IF_ERROR(CheckStep("state.", state.step()));
  RETURN_IF_ERROR(CheckLabels("state.", state.labels()));
  RETURN_IF_ERROR(CheckRequestId(request.request.request_id()));
  for (const auto& [host, part] : request.placed->hosts) {
    RETURN_IF_ERROR(CheckNotDrained(membership_, host));
    RETURN_IF_ERROR(CheckHost(membership_.workers(), host, part.devices));
    RETURN_IF_ERROR(CheckMemory(membership_.workers(), host, state, part.bytes));
  }
  if (state.write_once()) {
    RETURN_IF_ERROR(CheckKnowWriteOnce(*request.placed, membership_.workers()));
  }
  RETURN_IF_ERROR(CheckQuota(state.name(), 1, request.placed->total_bytes));
  if (registry_.states().size() + creates_.size() >= options_.states_max) {
    const std::string most = absl::StrCat(options_.states_max);
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("there are ", most, " states already"),
                     {.reason = "TOO_MANY_STATES", .metadata = {{"states_max", most}}});
  }
  return CheckEntries(EntriesOf(*request.placed));
}

absl::Status States::CheckMove(const StateEntry& state, const PlacedState& target) const {
  RETURN_IF_ERROR(CheckQuota(state.name(), 0, target.total_bytes - state.placed->total_bytes));
  return CheckEntries(EntriesOf(target) - EntriesOf(*state.placed));
}

absl::Status States::CheckEntries(int64_t more) const {
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
      .hosts = {}, .records = RecordsOf(entry), .then = StateCreated{.name = entry.name()}};
  for (const auto& [host, part] : request.placed->hosts) reliance.hosts.insert(host);
  creates_[entry.name()] = {.calls = {call}, .refused = {}, .entry = entry};
  return reliance;
}

void States::OnCreated(const StateCreated& created, Outbox& out) {
  const std::string& name = created.name;
  auto pending = creates_.extract(name);
  const StateEntry& state = registry_.Add(std::move(pending.mapped().entry));
  for (const auto& [host, part] : state.placed->hosts) SendAssignment(state, host, out);
  for (const std::string& host : wanted_.HostsOf(name)) SendAbsence(state, host, out);
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
  const std::set<std::string> back = HeldBack(*state);
  state->once_commit = OnceCommit::kDurable;
  for (const auto& [host, part] : state->placed->hosts) {
    if (back.contains(host)) {
      SendAssignment(*state, host, out);
    } else {
      commands_.Send(host, ToCommitWrite(*state), out);
    }
  }
  for (const std::string& host : wanted_.HostsOf(state->name())) SendAbsence(*state, host, out);
  out.Note(absl::StrCat("committed ", state->name(), ", which is written once"));
  out.Touch(state->name());
}

// Hosts that came back without their shards, and are assigned nothing for now.
std::set<std::string> States::HeldBack(const StateEntry& state) const {
  std::set<std::string> held;
  for (const auto& [host, part] : state.placed->hosts) {
    if (IsHeldBack(state, membership_.workers(), host)) held.insert(host);
  }
  return held;
}

// The host has attached. If it was the last one of the state that could tell of a commit, those
// that were held back because of that are assigned their shards.
void States::OnAttached(const std::string& host, StateEntry& state, Outbox& out) const {
  if (!state.unattached_hosts.contains(host)) return;
  const bool last = state.unattached_hosts.size() == 1;
  const std::set<std::string> held = last ? HeldBack(state) : std::set<std::string>();
  state.unattached_hosts.erase(host);
  for (const std::string& other : held) {
    const bool waits = other != host && membership_.workers().alive(other);
    if (waits && !IsHeldBack(state, membership_.workers(), other)) {
      SendAssignment(state, other, out);
    }
  }
}

// Sends a host with shards of the state their list. A new state is sent to all of its hosts at
// once, so each message is made only when its stream can take it.
void States::SendAssignment(const StateEntry& state, const std::string& host, Outbox& out) const {
  const WorkerEntry* worker = membership_.workers().Find(host);
  const bool in_columns = worker != nullptr && worker->registration.supports_short_assign_state();
  const auto make = [placed = state.placed, head = AssignmentHead(state), host, in_columns] {
    v1::AttachResponse message;
    v1::Assignment& assignment = *message.mutable_assign_state()->mutable_assignment();
    assignment = in_columns ? AssignmentInColumns(*placed, host) : AssignmentOf(*placed, host);
    assignment.MergeFrom(head);
    return message;
  };
  commands_.SendLater(host, AssignmentBytes(*state.placed, host), make, out);
}

// Informs a host without shards of the state, which knows of the state only because a trainer there
// asked.
void States::SendAbsence(const StateEntry& state, const std::string& host, Outbox& out) const {
  if (state.placed->hosts.contains(host)) return;
  v1::AttachResponse message;
  *message.mutable_assign_state()->mutable_assignment() = AssignmentHead(state);
  commands_.Send(host, std::move(message), out);
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
    for (const std::string& host : others) SendAbsence(state, host, out);
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
  ReportAway(away, states, out);
  deletions_.OnHostAway(away.host, out);
}

namespace {

// At most 8 of them, after `what`; "" if there are none.
std::string Some(std::string_view what, const std::vector<std::string>& names) {
  constexpr size_t kNamed = 8;
  if (names.empty()) return "";
  const size_t named = std::min(names.size(), kNamed);
  const size_t more = names.size() - named;
  return absl::StrCat(std::string(what), absl::StrJoin(names.begin(), names.begin() + named, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace

// Logs a warning if the journal has the host, else a note. Whether what is left covers a state of
// many hosts is not looked at: the hosts of a whole network may go one after another.
void States::ReportAway(const HostAway& away, const std::vector<std::string>& states,
                        Outbox& out) const {
  constexpr size_t kLookedAt = 256;  // hosts
  std::vector<std::string> lost, degraded, either;
  for (const std::string& name : states) {
    const StateEntry& state = *registry_.Find(name);
    if (state.placed->hosts.size() > kLookedAt) {
      either.push_back(name);
      continue;
    }
    const bool is_degraded = ReportedPhase(state, membership_.workers()) == v1::State::DEGRADED;
    (is_degraded ? degraded : lost).push_back(name);
  }
  std::string line = absl::StrCat("host ", away.host, " is away: ", away.why.message(),
                                  Some("; LOST until it is back: ", lost),
                                  Some("; DEGRADED until it is back: ", degraded),
                                  Some("; LOST or DEGRADED until it is back: ", either));
  if (membership_.durable(away.host)) return out.Warn(std::move(line));
  out.Note(std::move(line));
}

void States::Assign(const std::string& host, Outbox& out) {
  const WorkerRegistry& workers = membership_.workers();
  for (const std::string& name : registry_.NamesOn(host)) {
    StateEntry& state = *registry_.Find(name);
    OnAttached(host, state, out);
    if (!IsHeldBack(state, workers, host)) SendAssignment(state, host, out);
    // PhaseOf() looks at all hosts, so it comes last: when the server restarts, all hosts attach.
    if (workers.alive(host) &&
        workers.Find(host)->Manifest(name, state.uid(), state.generation()) == nullptr &&
        PhaseOf(state, workers) == v1::State::LOST) {
      const std::string phase = v1::State::Phase_Name(ReportedPhase(state, workers));
      out.Warn(absl::StrCat(name, " is ", phase, ": host ", host, " came back without its shards"));
    }
    out.Touch(name);
  }
  WarnIfTooOld(host, out);
}

// Logs a warning if an attached worker's shards of some states do not count.
void States::WarnIfTooOld(const std::string& host, Outbox& out) const {
  std::vector<std::string> states;
  for (const std::string& name : registry_.NamesOn(host)) {
    if (IsTooOld(*registry_.Find(name), *membership_.workers().Find(host))) states.push_back(name);
  }
  const std::string which =
      Some(" must be upgraded: until then no shard counts that it holds of ", states);
  if (!which.empty()) out.Warn(absl::StrCat("the worker of host ", host, which));
}

void States::OnWanted(const std::string& host, const std::string& name, Outbox& out) {
  // The trainer then waits until its deadline.
  if (!ParseStateName("state", name).ok()) return;
  wanted_.Add(host, name);
  // A host with shards was informed when the state was created or moved, or when the host attached.
  if (const StateEntry* state = registry_.Find(name)) SendAbsence(*state, host, out);
}

}  // namespace remesh::server
