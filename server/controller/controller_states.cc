// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/controller.h"
#include "server/controller/digest.h"
#include "server/controller/names.h"
#include "server/controller/pagination.h"
#include "server/controller/proto_time.h"
#include "server/controller/uid.h"

namespace remesh {
namespace {

constexpr int kLabelsMax = 64;
constexpr size_t kLabelBytesMax = 1024;
constexpr size_t kRequestIdBytesMax = 256;

absl::Status StateError(absl::StatusCode code, std::string_view reason, const std::string& state,
                        std::string_view what) {
  return MakeError(code, absl::StrCat(state, " ", std::string(what)),
                   {.reason = std::string(reason), .metadata = {{"state", state}}});
}

absl::Status CheckLabels(const v1::State& state) {
  if (state.labels_size() > kLabelsMax) {
    return InvalidField("state.labels", absl::StrCat(state.labels_size(), " labels"),
                        "must be at most 64 labels");
  }
  for (const auto& [key, value] : state.labels()) {
    if (key.empty() || key.size() > kLabelBytesMax || value.size() > kLabelBytesMax) {
      return InvalidField(absl::StrCat("state.labels[", key.substr(0, 64), "]"), value,
                          "must have a key of 1 to 1024 bytes and a value of at most 1024");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StateEntry*> Controller::FindState(std::string_view field, const std::string& name) {
  RETURN_IF_ERROR(ParseStateName(field, name).status());
  StateEntry* state = states_.Find(name);
  if (state == nullptr)
    return StateError(absl::StatusCode::kNotFound, "NOT_FOUND", name, "does not exist");
  return state;
}

absl::StatusOr<Reply> Controller::Answer(const v1::GetStateRequest& request) {
  ASSIGN_OR_RETURN(const StateEntry* state, FindState("name", request.name()));
  return ToProto(*state, workers_);
}

absl::StatusOr<Reply> Controller::Answer(const v1::ListStatesRequest& request) const {
  ASSIGN_OR_RETURN(const std::string prefix, ParseParent("parent", request.parent()));
  const std::string scope = absl::StrCat("states of ", prefix);
  ASSIGN_OR_RETURN(const PageStart start,
                   ParsePage(request.page_size(), request.page_token(), scope));
  v1::ListStatesResponse response;
  response.set_next_page_token(FillPage(
      states_.states(), start, scope,
      [&](const StateEntry& state) { return state.name().compare(0, prefix.size(), prefix) == 0; },
      [&](const StateEntry& state) { return ToProto(state, workers_); }, options_.page_bytes_max,
      *response.mutable_states()));
  return response;
}

absl::Status Controller::CheckHosts(const std::string& host, const HostDevices& devices) const {
  const WorkerEntry* worker = workers_.Find(host);
  if (worker == nullptr || !worker->alive()) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("host ", host, " has no live worker"),
                     {.reason = "HOST_NOT_ATTACHED", .metadata = {{"host", host}}});
  }
  const int known = worker->registration.devices_size();
  if (devices.local_devices.empty() || devices.local_devices.back() < known)
    return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("host ", host, " has ", known, " devices, not one of local index ",
                                devices.local_devices.back()),
                   {.reason = "HOST_DEVICES_MISMATCH",
                    .metadata = {{"host", host},
                                 {"devices", absl::StrCat(known)},
                                 {"local_index", absl::StrCat(devices.local_devices.back())}}});
}

// Nothing new while the journal's disk is full: what is left of it is for decisions.
absl::Status Controller::CheckRoom() const {
  if (!journal_full_) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "the disk of the journal is full: only what has begun is brought to its end",
                   {.reason = "JOURNAL_FULL", .metadata = {}});
}

absl::Status Controller::CheckCreateState(const CreateState& request) const {
  const v1::State& state = request.request.state();
  RETURN_IF_ERROR(ParseStateName("state.name", state.name()).status());
  RETURN_IF_ERROR(CheckRoom());
  if (state.step() < 0)
    return InvalidField("state.step", absl::StrCat(state.step()), "must be >= 0");
  RETURN_IF_ERROR(CheckLabels(state));
  if (request.request.request_id().size() > kRequestIdBytesMax) {
    return InvalidField("request_id", request.request.request_id(), "must have at most 256 bytes");
  }
  for (const auto& [host, part] : request.placed->hosts)
    RETURN_IF_ERROR(CheckHosts(host, part.devices));
  if (states_.states().size() + creates_.size() >= options_.states_max) {
    const std::string most = absl::StrCat(options_.states_max);
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("there are ", most, " states already"),
                     {.reason = "TOO_MANY_STATES", .metadata = {{"states_max", most}}});
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Controller::JoinCreate(CallId call, const v1::CreateStateRequest& request,
                                            const std::string& digest) {
  const std::string& name = request.state().name();
  const StateEntry* state = states_.Find(name);
  auto pending = creates_.find(name);
  if (state == nullptr && pending == creates_.end()) return false;
  const std::string& id = state != nullptr ? state->request_id : pending->second.request_id;
  const std::string& known = state != nullptr ? state->request_digest : pending->second.digest;
  if (request.request_id().empty() || id != request.request_id() || known != digest ||
      request.validate_only()) {
    return StateError(absl::StatusCode::kAlreadyExists, "ALREADY_EXISTS", name, "exists already");
  }
  if (state != nullptr) {
    Reply(call, ToProto(*state, workers_));
  } else {
    pending->second.calls.push_back(call);
  }
  return true;
}

void Controller::StartCreateState(CallId call, const CreateState& request) {
  const v1::State& asked = request.request.state();
  const std::string digest = Digest(request.request);
  const absl::StatusOr<bool> joined = JoinCreate(call, request.request, digest);
  if (!joined.ok()) return Reply(call, joined.status());
  if (*joined) return;
  if (absl::Status status = CheckCreateState(request); !status.ok()) return Reply(call, status);

  StateEntry entry{.declared = {},
                   .placed = request.placed,
                   .request_id = request.request.request_id(),
                   .request_digest = digest};
  entry.declared.set_name(asked.name());
  entry.declared.set_generation(1);
  entry.declared.set_step(asked.step());
  *entry.declared.mutable_labels() = asked.labels();
  SetTime(now_.wall, *entry.declared.mutable_create_time());
  if (request.request.validate_only()) return Reply(call, ToProto(entry, workers_));
  const uint64_t high = random_();
  entry.declared.set_uid(MakeUid(high, random_()));

  creates_[asked.name()] = {.calls = {call}, .request_id = entry.request_id, .digest = digest};
  v1::State stored = entry.declared;
  *stored.mutable_spec() = request.placed->spec;
  std::set<std::string> hosts;
  for (const auto& [host, part] : request.placed->hosts) hosts.insert(host);
  std::vector<Record> records = KeepHosts(hosts);
  records.push_back(StateRecord(stored));
  records.push_back(CreateRequestRecord(asked.name(), entry.request_id, digest));
  Persist(std::move(records), [this, entry] { FinishCreateState(entry); });
}

void Controller::FinishCreateState(StateEntry entry) {
  const std::string name = entry.name();
  const StateEntry& state = states_.Add(std::move(entry));
  for (const auto& [host, part] : state.placed->hosts) {
    v1::AttachResponse assign;
    *assign.mutable_assign_state()->mutable_assignment() = AssignmentOf(state, host);
    Send(host, std::move(assign));
  }
  if (const auto wanted = wanted_.find(name); wanted != wanted_.end()) {
    for (const std::string& host : wanted->second) TellAbsent(state, host);
  }
  const auto pending = creates_.extract(name);
  Reply(pending.mapped().calls, ToProto(state, workers_));
  AddNote(absl::StrCat("created ", name));
  Touch(name);
}

// A host without shards hears of a state only because a trainer there asked.
void Controller::TellAbsent(const StateEntry& state, const std::string& host) {
  if (state.placed->hosts.contains(host)) return;
  v1::AttachResponse message;
  v1::Assignment& nothing = *message.mutable_assign_state()->mutable_assignment();
  nothing.set_state(state.name());
  nothing.set_state_uid(state.uid());
  nothing.set_generation(state.generation());
  nothing.set_committed(state.generation() > 1);
  Send(host, std::move(message));
}

// A move ends before its state goes. Only one whose commit cannot be completed ends by this.
absl::Status Controller::StopForDeletion(const StateEntry& state) {
  if (!state.busy()) return absl::OkStatus();
  const auto move = moves_.find(state.execution);
  if (state.deleting || move == moves_.end() || !move->second.execution.incomplete()) {
    return StateError(absl::StatusCode::kFailedPrecondition, "STATE_MOVING", state.name(),
                      "is moving");
  }
  ExecutionActions actions;
  move->second.execution.GiveUp(
      StateError(absl::StatusCode::kFailedPrecondition, "STATE_DELETED", state.name(),
                 "was deleted before the commit was complete"),
      actions);
  Apply(std::string(state.execution), std::move(actions));
  return absl::OkStatus();
}

// The state of that name, and others that had it, of which workers still hold something.
std::set<StateKey> Controller::StatesNamed(const std::string& name) const {
  std::set<StateKey> named;
  if (const StateEntry* state = states_.Find(name)) named.insert({name, state->uid()});
  for (auto it = owed_.lower_bound({{.state = name}, ""});
       it != owed_.end() && it->first.first.state == name; ++it) {
    named.insert({name, it->first.first.state_uid});
  }
  return named;
}

// Hosts that may hold something of it, as far as is known here.
std::set<std::string> Controller::HostsOf(const StateKey& state) const {
  std::set<std::string> hosts;
  if (const StateEntry* entry = states_.Find(state.name);
      entry != nullptr && entry->uid() == state.uid) {
    for (const auto& [host, part] : entry->placed->hosts) hosts.insert(host);
  }
  for (const auto& [name, move] : moves_) {
    if (move.execution.resource().state_uid() != state.uid) continue;
    for (const Participant& participant : move.execution.spec().participants) {
      hosts.insert(participant.host);
    }
  }
  for (const auto& [host, worker] : workers_.workers()) {
    const auto held = worker.manifests.lower_bound({.state = state.name, .state_uid = state.uid});
    const bool holds = held != worker.manifests.end() && held->first.state == state.name &&
                       held->first.state_uid == state.uid;
    if (holds) hosts.insert(host);
  }
  return hosts;
}

void Controller::StartDeleteState(CallId call, const v1::DeleteStateRequest& request) {
  const std::string name = request.name();
  if (absl::Status bad = ParseStateName("name", name).status(); !bad.ok()) return Reply(call, bad);
  StateEntry* state = states_.Find(name);
  const std::set<StateKey> named = StatesNamed(name);
  if (named.empty()) return Reply(call, FindState("name", name).status());
  if (creates_.contains(name)) {
    return Reply(call, StateError(absl::StatusCode::kAborted, "STATE_BEING_CREATED", name,
                                  "is being created"));
  }
  if (state != nullptr) {
    if (absl::Status busy = StopForDeletion(*state); !busy.ok()) return Reply(call, busy);
    state->deleting = true;
  }
  std::map<StateKey, Tombstone> gone;
  std::vector<Record> records = {NoStateRecord(name), NoNextStateRecord(name),
                                 NoCreateRequestRecord(name)};
  for (const StateKey& key : named) {
    gone[key] = tombstones_.Make(HostsOf(key));
    records.push_back(TombstoneRecord(key, gone[key]));
  }
  Persist(std::move(records), [this, call, name, gone] {
    for (const auto& [key, tombstone] : gone) {
      std::vector<Record> forgotten = tombstones_.Add(key, tombstone);
      if (!forgotten.empty()) Persist(std::move(forgotten), [] {});
    }
    states_.Remove(name);
    wanted_.erase(name);
    SettleState(name);
    Reply(call, google::protobuf::Empty());
    AddNote(absl::StrCat("deleted ", name));
    Touch(name);
  });
}

}  // namespace remesh
