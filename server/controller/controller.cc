// SPDX-License-Identifier: Apache-2.0
#include "server/controller/controller.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/controller/host_events.h"
#include "server/controller/operator_events.h"
#include "server/controller/removal.h"
#include "server/controller/settle.h"
#include "server/controller/values/overloaded.h"

namespace remesh::server {
namespace {

// Whether the world that the request comes from, if it says so, is the present one.
absl::Status CheckWorld(const CreateState& request, const ControllerOptions& options) {
  return CheckFenceOf(request.request, request.request.state().name(), options.is_present);
}
absl::Status CheckWorld(const v1::UpdateStateRequest& request, const ControllerOptions& options) {
  return CheckFenceOf(request, request.name(), options.is_present);
}
absl::Status CheckWorld(const v1::DeleteStateRequest& request, const ControllerOptions& options) {
  return CheckFenceOf(request, request.name(), options.is_present);
}
absl::Status CheckWorld(const v1::StartExecutionRequest& request,
                        const ControllerOptions& options) {
  return CheckFenceOf(request, request.state(), options.is_present);
}
// What operators ask for comes from no world.
template <typename Request>
absl::Status CheckWorld(const Request&, const ControllerOptions&) {
  return absl::OkStatus();
}

}  // namespace

Controller::Controller(ControllerOptions options, RandomBits random, Restored restored)
    : restored_(std::move(restored)),
      pause_(options.tick_interval),
      machines_(std::move(options), std::move(random), restored_) {}

Actions Controller::Start(Moment now) {
  Outbox out;
  const Restored restored = std::exchange(restored_, {});
  pause_.Start(now.steady);
  machines_.leadership.Begin(out);
  machines_.membership.Restore(restored, now);
  machines_.states.Restore(restored);
  for (const auto& [execution, state] : machines_.executions.Restore(restored, now, out)) {
    machines_.states.BeginExecution(state, execution, machines_.executions.Find(execution)->target);
  }
  return Finish(out);
}

Actions Controller::Handle(Event event, Moment now) {
  Outbox out;
  if (!std::holds_alternative<Tick>(event)) now.steady = pause_.Between(now.steady);
  std::visit(
      Overloaded{
          [&](Call& call) { OnCall(call, now, out); },
          [&](const CallerLeft& left) { machines_.states.deletions().DropCall(left.call); },
          [&](const WatchStarted& watch) { machines_.watches.OnStarted(watch, out); },
          [&](const WatchEnded& watch) { machines_.watches.OnEnded(watch.id); },
          [&](const StreamOpened& opened) {
            machines_.new_streams.OnOpened(opened.stream, now.steady);
          },
          [&](const StreamMessage& message) { OnStreamMessage(message, machines_, now, out); },
          [&](const StreamEnded& ended) { OnStreamEnded(ended.stream, machines_, now, out); },
          [&](const Planned& planned) { OnPlanned(planned, now, out); },
          [&](const Persisted& persisted) {
            for (const FollowUp& next : machines_.journal.OnPersisted(persisted)) {
              OnDurable(next, now, out);
            }
          },
          [&](const JournalLost& lost) { machines_.leadership.OnJournalLost(lost.why); },
          [&](const Reconfigure& change) { OnReconfigure(change, machines_, out); },
          [&](const Drain& drain) { OnDrain(drain, machines_, now, out); },
          [&](const Tick&) { OnTick(now, out); }},
      event);
  return Finish(out);
}

// Whatever may make a state READY touches it, for its watchers.
Actions Controller::Finish(Outbox& out) {
  if (!machines_.leadership.behind()) machines_.states.CommitWrites(out.touched(), out);
  machines_.watches.NotifyTouched(out);
  if (machines_.leadership.behind()) {
    machines_.states.deletions().EndCalls(machines_.leadership.CheckMayChange(), out);
    out.DropPersists();
  }
  machines_.journal.Enqueue(out);
  return std::move(out.actions());
}

void Controller::OnDurable(const FollowUp& follow_up, Moment now, Outbox& out) {
  std::visit(
      Overloaded{
          [](const NothingFollows&) {},
          [&](const CallPersisted& done) { out.Reply(done.call, google::protobuf::Empty()); },
          [&](const LeadershipBegun&) { OnLeadershipBegun(machines_, now, out); },
          [&](const HostAdmitted& admitted) { OnHostAdmitted(admitted, machines_, now, out); },
          [&](const StateCreated& created) { machines_.states.OnCreated(created, out); },
          [&](const StateUpdated& updated) { machines_.states.OnUpdated(updated, out); },
          [&](const WriteCommitted& committed) {
            machines_.states.OnWriteCommitted(committed, out);
          },
          [&](const StateDeleted& deleted) {
            machines_.states.OnDeleted(deleted, out);
            Settle(HeldOfState(deleted.name, machines_.membership.workers()), machines_, out);
            machines_.states.deletions().Answer(deleted, out);
            out.Note(absl::StrCat("deleted ", deleted.name));
          },
          [&](const ConfirmationsSaved&) {
            machines_.states.deletions().OnConfirmationsSaved(out);
          },
          [&](const ExecutionStored& stored) {
            machines_.starts.OnStored(stored.name, out);
            machines_.executions.OnStored(stored.name, now, out);
          },
          [&](const ExecutionSaved& saved) {
            const auto end = machines_.executions.OnSaved(saved, now, out);
            if (end) OnExecutionEnded(*end, now, out);
          }},
      follow_up);
}

void Controller::OnExecutionEnded(const ExecutionEnd& end, Moment now, Outbox& out) {
  machines_.states.EndExecution(end, out);
  // Frees the previous generation, or what the execution wrote in vain.
  Settle(HeldOfState(end.state, machines_.membership.workers()), machines_, out);
  machines_.executions.Proceed(now, out);
}

void Controller::OnTick(Moment now, Outbox& out) {
  machines_.watches.OnTick(out);
  if (const Timestamp pause = pause_.OnTick(now.steady); pause.count() > 0)
    ExtendDeadlines(pause, out);
  machines_.new_streams.OnTick(now.steady, out);
  DropSilentHosts(machines_, now, out);
  if (machines_.leadership.behind()) return;
  for (const std::string& name : std::set<std::string>(machines_.executions.running())) {
    for (const HostAway& host : machines_.executions.OnTick(name, now, out)) {
      DropHost(host, machines_, now, out);
    }
  }
}

// A worker whose messages were not read because the server itself stood still was not silent.
void Controller::ExtendDeadlines(Timestamp pause, Outbox& out) {
  if (pause >= std::chrono::seconds(1)) {
    out.Warn(
        absl::StrCat("the server stood still for ", pause / std::chrono::milliseconds(1), " ms"));
  }
  machines_.new_streams.ExtendDeadlines(pause);
  machines_.membership.ExtendDeadlines(pause);
  machines_.starts.ExtendDeadlines(pause);
  machines_.executions.ExtendDeadlines(pause);
}

void Controller::OnPlanned(const Planned& planned, Moment now, Outbox& out) {
  std::optional<Launch> launch = machines_.starts.OnPlanned(planned, now, out);
  if (!launch) return;
  const v1::Execution& resource = launch->entry.execution.resource();
  if (!launch->entry.execution.ended()) {
    machines_.states.BeginExecution(resource.state(), resource.name(), launch->entry.target);
  }
  machines_.executions.Add(std::move(launch->entry));
  PersistWithHosts(std::move(launch->reliance), machines_, out);
}

void Controller::OnCall(Call& call, Moment now, Outbox& out) {
  std::visit(
      [&](auto& request) {
        if constexpr (requires { Answer(request, machines_.view()); }) {
          out.Reply(call.id, Answer(request, machines_.view()));
        } else if (absl::Status may = machines_.leadership.CheckMayChange(); !may.ok()) {
          out.Reply(call.id, std::move(may));
        } else if (absl::Status present = CheckWorld(request, machines_.options); !present.ok()) {
          out.Reply(call.id, std::move(present));
        } else {
          Change(call.id, std::move(request), now, out);
        }
      },
      call.request);
}

void Controller::Change(CallId call, const CreateState& request, Moment now, Outbox& out) {
  std::optional<Reliance> asked = machines_.states.Create(call, request, now, out);
  if (asked) PersistWithHosts(*std::move(asked), machines_, out);
}

void Controller::Change(CallId call, const v1::UpdateStateRequest& request, Moment, Outbox& out) {
  machines_.states.Update(call, request, out);
}

void Controller::Change(CallId call, const v1::DeleteStateRequest& request, Moment now,
                        Outbox& out) {
  const DeletionCall asked{.call = call, .wait = request.wait()};
  Deletions& deletions = machines_.states.deletions();
  const absl::Status other =
      CheckNotReplaced(request.name(), request.uid(), machines_.states.registry());
  if (other.ok() && deletions.Join(asked, request.name())) return;
  const absl::StatusOr<StateRemoval> removal =
      RemoveState(request.name(), request.uid(), machines_.view());
  const bool gone = absl::IsNotFound(removal.status());
  if (gone && deletions.JoinPast(asked, {.name = request.name(), .uid = request.uid()}, out))
    return;
  if (!removal.ok()) return out.Reply(call, removal.status());
  Deletion deletion = machines_.states.Delete(asked, request.name(), removal->gone);
  if (!removal->given_up.empty()) {
    machines_.executions.GiveUp(removal->given_up, removal->why,
                                std::exchange(deletion.records, {}), now, out);
  }
  out.Persist(std::move(deletion.records), std::move(deletion.then));
}

void Controller::Change(CallId call, const SaveWorlds& request, Moment, Outbox& out) {
  std::vector<Record> records = {LastWorldEpochRecord(request.last_epoch)};
  for (const auto& [scope, world] : request.worlds) {
    records.push_back(world ? WorldRecord(scope, *world) : NoWorldRecord(scope));
  }
  out.Persist(std::move(records), CallPersisted{call});
}

void Controller::Change(CallId call, v1::StartExecutionRequest&& request, Moment now, Outbox& out) {
  machines_.starts.Start(call, std::move(request), now, out);
}

void Controller::Change(CallId call, const v1::CancelExecutionRequest& request, Moment now,
                        Outbox& out) {
  machines_.executions.Cancel(call, request.name(), now, out);
}

void Controller::Change(CallId call, const v1::ResolveExecutionRequest& request, Moment now,
                        Outbox& out) {
  machines_.executions.Resolve(call, request, now, out);
}

}  // namespace remesh::server
