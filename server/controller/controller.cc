// SPDX-License-Identifier: Apache-2.0
#include "server/controller/controller.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh {
namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace

Controller::Controller(ControllerOptions options, Random random, Restored restored)
    : options_(options),
      random_(std::move(random)),
      epoch_(restored.epoch + 1),
      highest_epoch_(epoch_),
      strangers_(restored.strangers),
      restored_(std::move(restored)),
      workers_(options_.topology_rules) {}

Actions Controller::Start(Moment now) {
  now_ = now;
  Persist({EpochRecord(epoch_)}, [this] {
    leads_ = true;
    std::vector<StreamId> waiting;
    for (const auto& [stream, messages] : parked_) waiting.push_back(stream);
    for (const StreamId stream : waiting) Unpark(stream);
  });
  hosts_ = restored_.hosts;
  deleted_ = restored_.deleted;
  std::vector<Record> nobody;  // of journals that do not say who was away
  for (const auto& [state, hosts] : deleted_) {
    if (hosts.empty()) nobody.push_back(NoDeletedRecord(state));
  }
  std::erase_if(deleted_, [](const auto& deleted) { return deleted.second.empty(); });
  if (!nobody.empty()) Persist(std::move(nobody), [] {});
  for (const auto& [name, state] : restored_.states) RestoreState(name, state);
  for (const v1::Execution& execution : restored_.executions)
    RestoreExecution(execution, restored_);
  restored_ = Restored{};
  return std::exchange(out_, {});
}

Actions Controller::Handle(Event event, Moment now) {
  now_ = now;
  Dispatch(event);
  TellWatchers();
  return std::exchange(out_, {});
}

void Controller::Dispatch(Event& event) {
  std::visit(
      Overloaded{
          [this](const Call& call) {
            std::visit(Overloaded{
                           [&](const CreateState& request) { StartCreateState(call.id, request); },
                           [&](const v1::DeleteStateRequest& request) {
                             StartDeleteState(call.id, request);
                           },
                           [&](const v1::StartExecutionRequest& request) {
                             StartExecution(call.id, request);
                           },
                           [&](const auto& request) { Reply(call.id, Answer(request)); },
                       },
                       call.request);
          },
          [this](const WatchStarted& watch) { OnWatch(watch); },
          [this](const WatchEnded& watch) { OnWatchEnded(watch.id); },
          [this](const StreamMessage& message) { OnMessage(message.stream, message.message); },
          [this](const StreamEnded& ended) { OnStreamEnded(ended.stream); },
          [this](Planned& planned) { OnPlanned(planned.id, std::move(planned.move)); },
          [this](const Persisted& persisted) { OnPersisted(persisted.sequence); },
          [this](const Tick&) { OnTick(); },
      },
      event);
}

void Controller::Persist(std::vector<Record> records, Continuation then) {
  const uint64_t sequence = next_sequence_++;
  continuations_[sequence] = std::move(then);
  out_.push_back(remesh::Persist{.sequence = sequence, .records = std::move(records)});
}

void Controller::OnPersisted(uint64_t sequence) {
  while (!continuations_.empty() && continuations_.begin()->first <= sequence) {
    const Continuation then = std::move(continuations_.begin()->second);
    continuations_.erase(continuations_.begin());
    then();
  }
}

void Controller::OnTick() {
  for (const StreamId stream : workers_.Silent(now_.steady, options_.lost_after)) {
    const std::string host = *workers_.HostOf(stream);
    DropStream(stream,
               MakeError(absl::StatusCode::kUnavailable,
                         absl::StrCat("the worker of host ", host, " was silent for too long"),
                         {.reason = "WORKER_LOST", .metadata = {{"host", host}}}));
  }
  for (const std::string& name : std::set<std::string>(running_)) {
    ExecutionActions actions;
    moves_.at(name).execution.OnTick(now_, actions);
    if (!actions.empty()) Apply(name, std::move(actions));
  }
}

void Controller::Reply(CallId call, absl::StatusOr<remesh::Reply> reply) {
  out_.push_back(ReplyTo{.call = call, .reply = std::move(reply)});
}

void Controller::Reply(const std::vector<CallId>& calls,
                       const absl::StatusOr<remesh::Reply>& reply) {
  for (const CallId call : calls) Reply(call, reply);
}

void Controller::AddNote(std::string line) { out_.push_back(Note{.line = std::move(line)}); }

Census Controller::TakeCensus() const {
  Census census;
  census.workers = static_cast<int64_t>(workers_.workers().size());
  for (const auto& [host, worker] : workers_.workers()) census.workers_alive += worker.alive();
  for (const auto& [name, state] : states_.states()) ++census.states[PhaseOf(state, workers_)];
  census.executions_running = static_cast<int64_t>(running_.size());
  return census;
}

}  // namespace remesh
