// SPDX-License-Identifier: Apache-2.0
// What workers say, and what they are told when they come.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "server/controller/assignment_parts.h"
#include "server/controller/controller.h"
#include "server/controller/names.h"
#include "server/controller/proto_time.h"

namespace remesh {
namespace {

constexpr size_t kWantedMax = 100'000;     // states that trainers wait for
constexpr size_t kManifestsMax = 100'000;  // of a host, as in Register

absl::Status WorkerLost(const std::string& host, std::string_view how) {
  return MakeError(absl::StatusCode::kUnavailable,
                   absl::StrCat("the worker of host ", host, " ", std::string(how)),
                   {.reason = "WORKER_LOST", .metadata = {{"host", host}}});
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
  workers_.Heard(stream, message, now_);
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

void Controller::Greet(const std::string& host, const v1::Register& registration) {
  v1::AttachResponse message;
  v1::Welcome& welcome = *message.mutable_welcome();
  SetDuration(options_.heartbeat_interval, *welcome.mutable_heartbeat_interval());
  SetDuration(options_.lost_after, *welcome.mutable_lost_after());
  welcome.set_cluster_uid(past_.cluster_uid);
  welcome.set_incarnation(registration.incarnation());
  for (const v1::WorkerDevice& device : registration.devices()) welcome.add_device_ids(device.id());
  Send(host, std::move(message));

  SettleHost(host, registration);
  TellReturned(host);
  for (const std::string& name : states_.NamesOn(host)) {
    const StateEntry& state = *states_.Find(name);
    v1::AttachResponse assign;
    *assign.mutable_assign_state()->mutable_assignment() = AssignmentOf(state, host);
    Send(host, std::move(assign));
    if (PhaseOf(state, workers_) == v1::State::LOST && workers_.alive(host) &&
        workers_.Find(host)->Manifest(name, state.uid(), state.generation()) == nullptr) {
      Warn(absl::StrCat(name, " is LOST: host ", host, " came back without its shards"));
    }
    Touch(name);
  }
}

void Controller::TellReturned(const std::string& host) {
  for (auto& [name, move] : moves_) {
    const v1::Execution& resource = move.execution.resource();
    const v1::StateManifest* held = workers_.Find(host)->Manifest(
        resource.state(), resource.state_uid(), resource.target_generation());
    const bool holds_target = held != nullptr && held->phase() != v1::SHARD_PHASE_PREPARED &&
                              (held->execution() == name || held->execution().empty());
    ExecutionActions actions;
    move.execution.OnHostReturned(host, holds_target, actions);
    if (!actions.empty()) Apply(name, std::move(actions));
  }
}

void Controller::OnWorkerEvent(const std::string& host, const v1::AttachRequest& message) {
  switch (message.event_case()) {
    case v1::AttachRequest::kHeartbeat:
      return;
    case v1::AttachRequest::kManifestChanged:
      return OnManifest(host, message.manifest_changed().manifest());
    case v1::AttachRequest::kStateWanted:
      return OnStateWanted(host, message.state_wanted().state());
    case v1::AttachRequest::kRetired:
      return DropHeld(host, {.state = message.retired().state(),
                             .state_uid = message.retired().state_uid(),
                             .generation = message.retired().generation()});
    case v1::AttachRequest::kForgotten:
      return OnForgotten(host, message.forgotten());
    default:
      if (behind_.empty()) OnAttemptEvent(host, message);
  }
}

void Controller::OnAttemptEvent(const std::string& host, const v1::AttachRequest& message) {
  using Event = v1::AttachRequest;
  const v1::AttemptId& attempt =
      message.event_case() == Event::kPrepared     ? message.prepared().attempt()
      : message.event_case() == Event::kWindowDone ? message.window_done().attempt()
      : message.event_case() == Event::kVerified   ? message.verified().attempt()
      : message.event_case() == Event::kCommitted  ? message.committed().attempt()
      : message.event_case() == Event::kQuiesced   ? message.quiesced().attempt()
                                                   : message.failed().attempt();
  // What a host says that it holds is so, whoever asked.
  if (message.committed().has_manifest()) OnManifest(host, message.committed().manifest());
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

void Controller::OnManifest(const std::string& host, const v1::StateManifest& manifest) {
  if (!ValidateManifest(manifest).ok()) return;  // it says nothing that could be used
  auto& manifests = workers_.Find(host)->manifests;
  if (manifests.size() >= kManifestsMax && !manifests.contains(KeyOf(manifest))) return;
  manifests[KeyOf(manifest)] = manifest;
  Settle(host, manifest);
  // Only who holds the current generation where it belongs can free what others owe.
  const StateEntry* state = states_.Find(manifest.state());
  if (state != nullptr && state->uid() == manifest.state_uid() &&
      state->generation() == manifest.generation() && state->placed->hosts.contains(host)) {
    SettleOwed(manifest.state());
  }
  Touch(manifest.state());
}

void Controller::OnStreamEnded(StreamId stream) {
  parked_.erase(stream);
  const std::optional<std::string> host = workers_.Detach(stream);
  if (!host) return;
  WorkerAway(*host, WorkerLost(*host, "is lost: its stream ended"));
  DropUnprovenHost(*host);
}

void Controller::DropStream(StreamId stream, const absl::Status& status) {
  out_.push_back(CloseStream{.stream = stream, .status = status});
  const std::optional<std::string> host = workers_.Detach(stream);
  if (!host) return;
  WorkerAway(*host, status);
  DropUnprovenHost(*host);
}

// A warning if anything relies on the host.
void Controller::TellAway(const std::string& host, const std::vector<std::string>& states,
                          const absl::Status& why) {
  constexpr size_t kNamed = 8;
  const std::vector<std::string> named(states.begin(),
                                       states.begin() + std::min(states.size(), kNamed));
  const std::string line = absl::StrCat(
      "host ", host, " is away: ", why.message(),
      states.empty() ? "" : "; LOST until it is back: ", absl::StrJoin(named, ", "),
      states.size() > kNamed ? absl::StrCat(" and ", states.size() - kNamed, " more") : "");
  const auto entry = hosts_.find(host);
  if (entry != hosts_.end() && entry->second.durable) return Warn(line);
  AddNote(line);
}

void Controller::WorkerAway(const std::string& host, const absl::Status& why) {
  for (auto& [state, hosts] : wanted_) hosts.erase(host);
  std::erase_if(wanted_, [](const auto& wanted) { return wanted.second.empty(); });
  const std::vector<std::string> states = states_.NamesOn(host);
  for (const std::string& name : states) Touch(name);
  if (!workers_.alive(host)) TellAway(host, states, why);
  if (!behind_.empty()) return;
  for (const std::string& name : std::set<std::string>(running_)) {
    ExecutionActions actions;
    moves_.at(name).execution.OnHostAway(host, why, now_, actions);
    if (moves_.at(name).execution.has_participant(host)) Apply(name, std::move(actions));
  }
}

void Controller::Send(const std::string& host, v1::AttachResponse message) {
  const WorkerEntry* worker = workers_.Find(host);
  if (worker == nullptr || !worker->alive()) return;
  if (!behind_.empty() && !message.has_welcome()) return;
  for (v1::AttachResponse& part : CutAssignment(std::move(message))) {
    part.set_epoch(epoch_);
    if (behind_.empty()) {  // else the worker keeps what proves that we are
      part.mutable_position()->set_cluster_uid(past_.cluster_uid);
      part.mutable_position()->set_leadership(past_.leadership);
      part.mutable_position()->set_sequence(durable_sequence_);
    }
    out_.push_back(SendToWorker{.stream = worker->stream, .message = std::move(part)});
  }
}

void Controller::PublishTopology() {
  out_.push_back(TopologyChanged{.topology = workers_.topology()});
}

}  // namespace remesh
