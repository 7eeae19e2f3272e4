// SPDX-License-Identifier: Apache-2.0
// What workers say, and what they are told when they come.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/controller.h"
#include "server/controller/names.h"
#include "server/controller/pagination.h"
#include "server/controller/proto_time.h"

namespace remesh {
namespace {

constexpr size_t kWantedMax = 100'000;  // states that trainers wait for

constexpr uint64_t kEpochJumpMax = uint64_t{1} << 32;
constexpr uint64_t kEpochMax = uint64_t{1} << 63;

absl::Status HostError(absl::StatusCode code, std::string_view reason, const std::string& host,
                       std::string_view what) {
  return MakeError(code, absl::StrCat("the worker of host ", host, " ", std::string(what)),
                   {.reason = std::string(reason), .metadata = {{"host", host}}});
}

// What became of an execution that wrote the manifest's generation.
void SetOutcome(bool committed, const v1::AttemptId& attempt, const v1::StateManifest& manifest,
                v1::AttachResponse& message) {
  if (committed) {
    *message.mutable_commit()->mutable_attempt() = attempt;
    message.mutable_commit()->set_state(manifest.state());
    message.mutable_commit()->set_generation(manifest.generation());
  } else {
    *message.mutable_abort()->mutable_attempt() = attempt;
    message.mutable_abort()->set_state(manifest.state());
    message.mutable_abort()->set_generation(manifest.generation());
  }
}

}  // namespace

void Controller::OnMessage(StreamId stream, const v1::AttachRequest& message) {
  if (auto parked = parked_.find(stream); parked != parked_.end()) {
    parked->second.push_back(message);
    return;
  }
  if (!leads_) {
    parked_[stream] = {message};
    return;
  }
  workers_.Heard(stream, now_);
  const std::string* host = workers_.HostOf(stream);
  const bool registers = message.event_case() == v1::AttachRequest::kRegister;
  if (registers && host == nullptr) {
    OnRegister(stream, message.register_());
  } else if (registers || host == nullptr) {
    DropStream(stream, InvalidField("event", registers ? "register" : "not register",
                                    "must be register in the first message, and in no other"));
  } else {
    OnWorkerEvent(std::string(*host), message);
  }
}

void Controller::OnRegister(StreamId stream, const v1::Register& registration) {
  absl::Status status = ValidateRegister(registration);
  if (status.ok() && FollowedAnother(registration)) return RaiseEpoch(stream, registration);
  // Not `= status`: a StatusOr cannot be made from an OK status.
  const absl::StatusOr<StreamId> replaced = status.ok()
                                                ? workers_.Register(stream, registration, now_)
                                                : absl::StatusOr<StreamId>(status);
  if (!replaced.ok()) {
    out_.push_back(CloseStream{.stream = stream, .status = AtField("register", replaced.status())});
    return;
  }
  const std::string& host = registration.host();
  if (*replaced != 0) {
    out_.push_back(CloseStream{
        .stream = *replaced,
        .status = HostError(absl::StatusCode::kAborted, "SUPERSEDED", host, "attached again")});
  }
  AddNote(
      absl::StrCat("worker of host ", host, " attached, incarnation ", registration.incarnation()));
  // Answers that an old stream carried may be lost, so no attempt goes on over a new one.
  WorkerAway(host,
             HostError(absl::StatusCode::kUnavailable, "WORKER_RESTARTED", host, "attached anew"));
  NoteHost(registration);
  PublishTopology();
  Greet(host);
}

// Whether a planner that is not this one has commanded the worker at an epoch that is not below
// ours. A host that knows our epoch from us only comes back over a new stream.
bool Controller::FollowedAnother(const v1::Register& registration) const {
  if (registration.highest_epoch() == epoch_) return !welcomed_.contains(registration.host());
  return registration.highest_epoch() > epoch_;
}

void Controller::RaiseEpoch(StreamId stream, const v1::Register& registration) {
  // Each leadership adds 1: who claims more would only use the numbers up.
  if (registration.highest_epoch() > kEpochMax ||
      registration.highest_epoch() > highest_epoch_ + kEpochJumpMax) {
    out_.push_back(CloseStream{
        .stream = stream,
        .status = InvalidField("register.highest_epoch", absl::StrCat(registration.highest_epoch()),
                               absl::StrCat("must be at most 2^32 above ours, ", epoch_))});
    return;
  }
  highest_epoch_ = std::max(highest_epoch_, registration.highest_epoch() + 1);
  std::vector<Record> records = {EpochRecord(highest_epoch_)};
  if (!std::exchange(strangers_, true)) {
    records.push_back(StrangersRecord());
    AddNote(absl::StrCat("worker of host ", registration.host(), " followed a planner of epoch ",
                         registration.highest_epoch(),
                         " that this journal does not know: nothing unknown is discarded"));
  }
  v1::AttachRequest again;
  *again.mutable_register_() = registration;
  parked_[stream] = {again};
  Persist(std::move(records), [this, stream, epoch = highest_epoch_] {
    epoch_ = std::max(epoch_, epoch);
    Unpark(stream);
  });
}

void Controller::Unpark(StreamId stream) {
  auto parked = parked_.find(stream);
  if (parked == parked_.end()) return;
  const std::vector<v1::AttachRequest> messages = std::move(parked->second);
  parked_.erase(parked);
  for (const v1::AttachRequest& message : messages) OnMessage(stream, message);
}

// A host that this journal never saw, but that followed a planner, may hold what another journal
// knows.
void Controller::NoteHost(const v1::Register& registration) {
  std::vector<Record> records;
  if (!hosts_.insert(registration.host()).second) return;
  records.push_back(HostRecord(registration.host()));
  const auto& manifests = registration.manifests();
  const bool stranger = registration.highest_epoch() > 0 &&
                        std::any_of(manifests.begin(), manifests.end(),
                                    [this](const auto& manifest) { return IsStrange(manifest); });
  if (stranger && !std::exchange(strangers_, true)) {
    records.push_back(StrangersRecord());
    AddNote(absl::StrCat("worker of host ", registration.host(),
                         " holds what this journal does not know: nothing unknown is discarded"));
  }
  Persist(std::move(records), [] {});
}

// Whether this journal cannot tell what the manifest's generation is for.
bool Controller::IsStrange(const v1::StateManifest& manifest) const {
  const StateEntry* state = states_.Find(manifest.state());
  if (state == nullptr || state->uid() != manifest.state_uid()) return true;
  if (!manifest.execution().empty()) return !moves_.contains(manifest.execution());
  return manifest.generation() > state->generation() && state->execution.empty();
}

// Once everybody who is known is here and holds nothing unknown, the journal tells it all again.
void Controller::EndStrangersIfAllKnown() {
  if (!strangers_) return;
  for (const std::string& host : hosts_) {
    if (!workers_.alive(host)) return;
  }
  for (const auto& [name, state] : states_.states()) {
    for (const auto& [host, part] : state.placed->hosts) {
      if (!workers_.alive(host)) return;
    }
  }
  for (const auto& [host, worker] : workers_.workers()) {
    for (const auto& [key, manifest] : worker.manifests) {
      if (IsStrange(manifest)) return;
    }
  }
  strangers_ = false;
  Persist({NoStrangersRecord()}, [] {});
  AddNote("every known worker is attached and holds nothing unknown");
}

void Controller::Greet(const std::string& host) {
  welcomed_.insert(host);
  v1::AttachResponse welcome;
  SetDuration(options_.heartbeat_interval,
              *welcome.mutable_welcome()->mutable_heartbeat_interval());
  SetDuration(options_.lost_after, *welcome.mutable_welcome()->mutable_lost_after());
  Send(host, std::move(welcome));

  const auto manifests = workers_.Find(host)->manifests;  // a copy: reconciling changes them
  for (const auto& [key, manifest] : manifests) Reconcile(host, manifest);
  ForgetDeletions(host);
  EndStrangersIfAllKnown();
  for (auto& [name, move] : moves_) {
    const v1::Execution& resource = move.execution.resource();
    auto manifest = manifests.find({resource.state(), resource.target_generation()});
    const bool holds_target = manifest != manifests.end() &&
                              manifest->second.state_uid() == resource.state_uid() &&
                              (manifest->second.phase() == v1::SHARD_PHASE_VERIFIED ||
                               manifest->second.phase() == v1::SHARD_PHASE_READY);
    ExecutionActions actions;
    move.execution.OnHostReturned(host, holds_target, actions);
    if (!actions.empty()) Apply(name, std::move(actions));
  }
  for (const std::string& name : states_.NamesOn(host)) {
    v1::AttachResponse assign;
    *assign.mutable_assign_state()->mutable_assignment() = AssignmentOf(*states_.Find(name), host);
    Send(host, std::move(assign));
    Touch(name);
  }
}

// Whether a readable generation of the state should not be on the host.
bool Controller::IsLeftover(const StateEntry& state, const std::string& host,
                            const v1::StateManifest& manifest) const {
  if (manifest.generation() < state.generation()) return true;
  // A committing execution makes the next one readable before its end is known here.
  if (manifest.generation() > state.generation()) return state.execution.empty() && !strangers_;
  // Hosts that only gave have an empty generation, which harms nobody.
  return !state.placed->hosts.contains(host) && manifest.total_shards() > 0;
}

void Controller::Reconcile(const std::string& host, const v1::StateManifest& manifest) {
  const StateEntry* state = states_.Find(manifest.state());
  v1::AttachResponse message;
  if (const StateKey key{manifest.state(), manifest.state_uid()};
      state == nullptr || state->uid() != key.uid) {
    if (!strangers_ || deleted_.contains(key)) Forget(host, key);
    return;
  } else if (manifest.phase() == v1::SHARD_PHASE_PREPARED ||
             manifest.phase() == v1::SHARD_PHASE_VERIFIED) {
    auto move = moves_.find(manifest.execution());
    if (running_.contains(manifest.execution())) return;  // see Execution::OnHostReturned
    if (move == moves_.end() && strangers_) return;
    const bool committed = move != moves_.end() && manifest.generation() == state->generation() &&
                           move->second.execution.resource().phase() == v1::Execution::SUCCEEDED;
    v1::AttemptId attempt;
    attempt.set_execution(manifest.execution());
    attempt.set_attempt(1);
    SetOutcome(committed, attempt, manifest, message);
  } else if (IsLeftover(*state, host, manifest)) {
    message.mutable_retire()->set_state(manifest.state());
    message.mutable_retire()->set_state_uid(manifest.state_uid());
    message.mutable_retire()->set_generation(manifest.generation());
  } else {
    return;
  }
  if (!message.has_commit()) {
    workers_.Find(host)->manifests.erase({manifest.state(), manifest.generation()});
  }
  Send(host, std::move(message));
}

void Controller::OnWorkerEvent(const std::string& host, const v1::AttachRequest& message) {
  using Event = v1::AttachRequest;
  if (message.event_case() == Event::kHeartbeat) return;
  if (message.event_case() == Event::kManifestChanged) {
    return OnManifestChanged(host, message.manifest_changed().manifest());
  }
  if (message.event_case() == Event::kStateWanted) {
    return OnStateWanted(host, message.state_wanted().state());
  }
  if (message.event_case() == Event::kRetired) {
    workers_.Find(host)->manifests.erase(
        {message.retired().state(), message.retired().generation()});
    return;
  }
  const v1::AttemptId& attempt =
      message.event_case() == Event::kPrepared     ? message.prepared().attempt()
      : message.event_case() == Event::kWindowDone ? message.window_done().attempt()
      : message.event_case() == Event::kVerified   ? message.verified().attempt()
      : message.event_case() == Event::kCommitted  ? message.committed().attempt()
      : message.event_case() == Event::kQuiesced   ? message.quiesced().attempt()
                                                   : message.failed().attempt();
  auto found = moves_.find(attempt.execution());
  if (found == moves_.end() ||
      found->second.execution.spec().attempt.attempt() != attempt.attempt())
    return;
  Execution& execution = found->second.execution;
  ExecutionActions actions;
  switch (message.event_case()) {
    case Event::kPrepared:
      execution.OnPrepared(host, now_, actions);
      break;
    case Event::kWindowDone:
      execution.OnWindowDone(host, message.window_done(), actions);
      break;
    case Event::kVerified:
      execution.OnVerified(host, now_, actions);
      break;
    case Event::kCommitted:
      execution.OnCommitted(host, actions);
      break;
    case Event::kQuiesced:
      execution.OnQuiesced(host, now_, actions);
      break;
    case Event::kFailed:
      execution.OnAttemptFailed(host, message.failed().error(), now_, actions);
      break;
    default:
      return;
  }
  Apply(attempt.execution(), std::move(actions));
}

void Controller::OnStateWanted(const std::string& host, const std::string& name) {
  // Then it waits until its deadline.
  if (!ParseStateName("state", name).ok()) return;
  if (wanted_.size() >= kWantedMax && !wanted_.contains(name)) return;
  wanted_[name].insert(host);
  // A host with shards was told when the state was made, or when it attached.
  if (const StateEntry* state = states_.Find(name)) TellAbsent(*state, host);
}

void Controller::OnManifestChanged(const std::string& host, const v1::StateManifest& manifest) {
  const StateEntry* state = states_.Find(manifest.state());
  if (state == nullptr || state->uid() != manifest.state_uid()) return;  // deleted meanwhile
  workers_.Find(host)->manifests[{manifest.state(), manifest.generation()}] = manifest;
  Touch(manifest.state());
}

void Controller::OnStreamEnded(StreamId stream) {
  parked_.erase(stream);
  const std::optional<std::string> host = workers_.Detach(stream);
  if (!host) return;
  AddNote(absl::StrCat("worker of host ", *host, " is away: its stream ended"));
  WorkerAway(*host, HostError(absl::StatusCode::kUnavailable, "WORKER_LOST", *host, "is lost"));
}

void Controller::DropStream(StreamId stream, const absl::Status& status) {
  out_.push_back(CloseStream{.stream = stream, .status = status});
  const std::optional<std::string> host = workers_.Detach(stream);
  if (!host) return;
  AddNote(absl::StrCat("worker of host ", *host, " is away: ", status.message()));
  WorkerAway(*host, status);
}

void Controller::WorkerAway(const std::string& host, const absl::Status& why) {
  for (auto& [state, hosts] : wanted_) hosts.erase(host);
  std::erase_if(wanted_, [](const auto& wanted) { return wanted.second.empty(); });
  for (const std::string& name : std::set<std::string>(running_)) {
    ExecutionActions actions;
    moves_.at(name).execution.OnHostAway(host, why, now_, actions);
    if (moves_.at(name).execution.has_participant(host)) Apply(name, std::move(actions));
  }
  for (const std::string& name : states_.NamesOn(host)) Touch(name);
}

void Controller::Send(const std::string& host, v1::AttachResponse message) {
  const WorkerEntry* worker = workers_.Find(host);
  if (worker == nullptr || !worker->alive()) return;
  message.set_epoch(epoch_);
  out_.push_back(SendToWorker{.stream = worker->stream, .message = std::move(message)});
}

void Controller::PublishTopology() {
  out_.push_back(TopologyChanged{.topology = workers_.topology()});
}

absl::StatusOr<remesh::Reply> Controller::Answer(const v1::ListWorkersRequest& request) const {
  ASSIGN_OR_RETURN(const PageStart start,
                   ParsePage(request.page_size(), request.page_token(), "workers"));
  v1::ListWorkersResponse response;
  response.set_next_page_token(FillPage(
      workers_.workers(), start, "workers", [](const WorkerEntry&) { return true; },
      [](const WorkerEntry& worker) { return ToProto(worker); }, options_.page_bytes_max,
      *response.mutable_workers()));
  return response;
}

absl::StatusOr<remesh::Reply> Controller::Answer(const v1::ForgetWorkerRequest& request) {
  ASSIGN_OR_RETURN(const std::string host, ParseWorkerName("name", request.name()));
  const WorkerEntry* worker = workers_.Find(host);
  if (worker == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, absl::StrCat(request.name(), " does not exist"),
                     {.reason = "NOT_FOUND", .metadata = {{"name", request.name()}}});
  }
  if (worker->alive()) {
    return HostError(absl::StatusCode::kFailedPrecondition, "WORKER_ALIVE", host, "is alive");
  }
  if (!states_.NamesOn(host).empty()) {
    return HostError(absl::StatusCode::kFailedPrecondition, "WORKER_HOLDS_SHARDS", host,
                     absl::StrCat("holds shards of ", states_.NamesOn(host).front()));
  }
  workers_.Forget(host);
  welcomed_.erase(host);
  hosts_.erase(host);
  Persist({NoHostRecord(host)}, [] {});
  ForgetDeletions(host);
  EndStrangersIfAllKnown();
  PublishTopology();
  return google::protobuf::Empty();
}

}  // namespace remesh
