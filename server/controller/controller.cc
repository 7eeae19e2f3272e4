// SPDX-License-Identifier: Apache-2.0
#include "server/controller/controller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace remesh {
namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

// Whether the answer decides something.
bool Changes(const Request& request) {
  return std::visit(Overloaded{[](const v1::GetStateRequest&) { return false; },
                               [](const v1::ListStatesRequest&) { return false; },
                               [](const v1::GetExecutionRequest&) { return false; },
                               [](const v1::ListExecutionsRequest&) { return false; },
                               [](const v1::ListWorkersRequest&) { return false; },
                               [](const auto&) { return true; }},
                    request);
}

}  // namespace

Controller::Controller(ControllerOptions options, Random random, Restored restored)
    : options_(options),
      random_(std::move(random)),
      epoch_(restored.epoch + 1),
      highest_epoch_(epoch_),
      past_(restored.past),
      restored_(std::move(restored)),
      workers_(options_.topology_rules),
      tombstones_(options_.tombstones_max),
      next_sequence_(past_.sequence + 1),
      durable_sequence_(past_.sequence) {}

Actions Controller::Start(Moment now) {
  now_ = now;
  last_tick_ = now.steady;
  Persist({EpochRecord(epoch_)}, [this] {
    leads_ = true;
    std::vector<StreamId> waiting;
    for (const auto& [stream, messages] : parked_) waiting.push_back(stream);
    for (const StreamId stream : waiting) Unpark(stream);
  });
  lost_leaderships_ = restored_.lost_leaderships;
  for (const auto& [host, known] : restored_.hosts) {
    hosts_[host] = {.known = known, .durable = true, .away_since = now.steady};
  }
  tombstones_.Restore(restored_.tombstones);
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
            if (absl::Status status = Changes(call.request) ? CheckMayChange() : absl::OkStatus();
                !status.ok()) {
              return Reply(call.id, status);
            }
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
          [this](const Persisted& persisted) {
            journal_full_ = persisted.full;
            OnPersisted(persisted.sequence);
          },
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
  durable_sequence_ = std::max(durable_sequence_, sequence);
  while (!continuations_.empty() && continuations_.begin()->first <= sequence) {
    const Continuation then = std::move(continuations_.begin()->second);
    continuations_.erase(continuations_.begin());
    then();
  }
}

absl::Status Controller::CheckMayChange() const {
  if (behind_.empty()) return absl::OkStatus();
  const std::string hosts = absl::StrJoin(behind_, ", ");
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("the journal has gone back in time, as the workers of ", hosts,
                   " know: nothing is decided until it is restored, or the server is started with "
                   "--accept-older-journal=",
                   past_.journal_uid),
      {.reason = "JOURNAL_BEHIND", .metadata = {{"hosts", hosts}, {"journal", past_.journal_uid}}});
}

// Whoever could not be heard because the server itself stood still was not silent.
void Controller::ForgiveOwnPause() {
  const Timestamp last = std::exchange(last_tick_, now_.steady);
  if (options_.tick_interval.count() == 0) return;
  const Timestamp pause = now_.steady - last - options_.tick_interval;
  if (pause <= options_.tick_interval) return;
  if (pause >= std::chrono::seconds(1)) {
    Warn(absl::StrCat("the server stood still for ", pause / std::chrono::milliseconds(1), " ms"));
  }
  workers_.Forgive(pause);
  for (auto& [host, entry] : hosts_) entry.away_since += pause;
  for (auto& [id, start] : starts_) start.asked.steady += pause;
  for (const std::string& name : running_) moves_.at(name).execution.Forgive(pause);
}

void Controller::OnTick() {
  ForgiveOwnPause();
  for (const StreamId stream : workers_.Silent(now_.steady, options_.lost_after)) {
    const std::string host = *workers_.HostOf(stream);
    DropStream(stream,
               MakeError(absl::StatusCode::kUnavailable,
                         absl::StrCat("the worker of host ", host, " was silent for too long"),
                         {.reason = "WORKER_LOST", .metadata = {{"host", host}}}));
  }
  if (!behind_.empty()) return;
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

void Controller::Warn(std::string line) {
  out_.push_back(Note{.line = std::move(line), .warning = true});
}

Census Controller::TakeCensus() const {
  Census census;
  census.workers = static_cast<int64_t>(workers_.workers().size());
  for (const auto& [host, worker] : workers_.workers()) census.workers_alive += worker.alive();
  for (const auto& [name, state] : states_.states()) ++census.states[PhaseOf(state, workers_)];
  census.executions_running = static_cast<int64_t>(running_.size());
  census.owed_generations = static_cast<int64_t>(owed_.size());
  for (const auto& [key, owed] : owed_) census.owed_bytes += owed.manifest.bytes();
  census.journal_behind = !behind_.empty();
  census.journal_full = journal_full_;
  return census;
}

}  // namespace remesh
