// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/controller_world.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "server/questions/place_state.h"
#include "tests/fuzz/target.h"

namespace remesh::fuzz {

absl::StatusOr<std::shared_ptr<const server::PlacedState>> PlaceSmall(const v1::StateSpec& spec) {
  ASSIGN_OR_RETURN(proto::StateLayout layout, proto::ToStateLayout(spec, nullptr));
  int64_t positions = 0;
  for (const proto::PlacedArray& array : layout.arrays)
    positions += array.placement.layout->device_count;
  if (positions > 1024) return absl::ResourceExhaustedError("too much for now");
  return server::PlaceState(spec, std::move(layout));
}

absl::Status ControllerWorld::Start() {
  controller_ = nullptr;
  pending_.clear();
  questions_.clear();
  streams_.clear();
  waiting_.clear();
  ASSIGN_OR_RETURN(server::Restored restored, server::ReadRecords(disk_, PlaceSmall));
  controller_ = std::make_unique<server::Controller>(
      server::ControllerOptions{}, [this] { return ++random_; }, std::move(restored));
  Take(controller_->Start(now_));
  return absl::OkStatus();
}

void ControllerWorld::Handle(server::Event event) {
  Take(controller_->Handle(std::move(event), now_));
}

void ControllerWorld::Take(server::Actions actions) {
  for (server::Action& action : actions) Take(action);
}

void ControllerWorld::Take(server::Action& action) {
  if (auto* persist = std::get_if<server::Persist>(&action)) {
    REMESH_CHECK(pending_.empty() || persist->sequence == pending_.back().sequence + 1);
    pending_.push_back(std::move(*persist));
  } else if (auto* send = std::get_if<server::SendToWorker>(&action)) {
    REMESH_CHECK(std::any_of(streams_.begin(), streams_.end(),
                             [&](const auto& open) { return open.second == send->stream; }));
    if (send->message.has_assign_state())
      last_uid_ = send->message.assign_state().assignment().state_uid();
  } else if (auto* later = std::get_if<server::SendLater>(&action)) {
    REMESH_CHECK(std::any_of(streams_.begin(), streams_.end(),
                             [&](const auto& open) { return open.second == later->stream; }));
    for (const v1::AttachResponse& command : later->commands.make())
      if (command.has_prepare()) last_attempt_ = command.prepare().attempt();
  } else if (auto* close = std::get_if<server::CloseStream>(&action)) {
    CheckRefusal(close->status);
    std::erase_if(streams_, [&](const auto& open) { return open.second == close->stream; });
  } else if (auto* reply = std::get_if<server::ReplyTo>(&action)) {
    REMESH_CHECK(waiting_.erase(reply->call) == 1);
    if (!reply->reply.ok()) return CheckRefusal(reply->reply.status());
    if (auto* state = std::get_if<v1::State>(&*reply->reply)) last_uid_ = state->uid();
    if (auto* e = std::get_if<v1::Execution>(&*reply->reply)) last_execution_ = e->name();
  } else if (auto* question = std::get_if<server::StartPlanning>(&action)) {
    questions_.push_back(std::move(*question));
  }
}

void ControllerWorld::Do(const Step& step) {
  switch (step.what_case()) {
    case Step::kSaid:
      return Send(step.said());
    case Step::kHungUp:
      if (auto stream = streams_.extract(step.hung_up()); !stream.empty())
        Handle(server::StreamEnded{.stream = stream.mapped()});
      return;
    case Step::kCreateState:
      return Create(step.create_state());
    case Step::kGetState:
      return Ask(step.get_state());
    case Step::kListStates:
      return Ask(step.list_states());
    case Step::kUpdateState: {
      v1::UpdateStateRequest request = step.update_state();
      if (request.uid().empty()) request.set_uid(last_uid_);
      return Ask(request);
    }
    case Step::kDeleteState:
      return Ask(step.delete_state());
    case Step::kStartExecution:
      return Ask(step.start_execution());
    case Step::kGetExecution: {
      v1::GetExecutionRequest request = step.get_execution();
      if (request.name().empty()) request.set_name(last_execution_);
      return Ask(request);
    }
    case Step::kListExecutions:
      return Ask(step.list_executions());
    case Step::kCancelExecution: {
      v1::CancelExecutionRequest request = step.cancel_execution();
      if (request.name().empty()) request.set_name(last_execution_);
      return Ask(request);
    }
    case Step::kListWorkers:
      return Ask(step.list_workers());
    case Step::kForgetWorker:
      return Ask(step.forget_worker());
    case Step::kResetWorker:
    case Step::kDrainWorker:
    case Step::kUndrainWorker:
    case Step::kResolveExecution:
    case Step::kDiscardShards:
      return Operate(step);
    case Step::kWatch:
      return Handle(server::WatchStarted{.id = ++last_call_, .name = step.watch()});
    case Step::kUnwatch:
      return Handle(server::WatchEnded{.id = step.unwatch()});
    case Step::kPlanned:
      return Plan(step.planned());
    case Step::kPersisted:
      return Write(step.persisted());
    case Step::kMilliseconds:
      now_.steady += std::chrono::milliseconds(step.milliseconds() % 1'000'000);
      now_.wall += absl::Milliseconds(step.milliseconds() % 1'000'000);
      return Handle(server::Tick{});
    case Step::kCrash:
      return REMESH_CHECK(Start().ok());
    case Step::WHAT_NOT_SET:
      return;
  }
}

// What an operator asks for.
void ControllerWorld::Operate(const Step& step) {
  if (step.has_reset_worker()) return Ask(step.reset_worker());
  if (step.has_drain_worker()) return Ask(step.drain_worker());
  if (step.has_undrain_worker()) return Ask(step.undrain_worker());
  if (step.has_resolve_execution()) {
    v1::ResolveExecutionRequest request = step.resolve_execution();
    if (request.name().empty()) request.set_name(last_execution_);
    return Ask(request);
  }
  v1::DiscardShardsRequest request = step.discard_shards();
  if (request.state_uid().empty()) request.set_state_uid(last_uid_);
  Ask(request);
}

namespace {

// Fills in what no input can know.
void FillIn(const std::string& uid, const std::optional<v1::AttemptId>& attempt,
            google::protobuf::Message& message) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->is_repeated()) {
      for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i)
        FillIn(uid, attempt, *message.GetReflection()->MutableRepeatedMessage(&message, field, i));
    } else {
      FillIn(uid, attempt, *message.GetReflection()->MutableMessage(&message, field));
    }
  }
  if (auto* manifest = dynamic_cast<v1::StateManifest*>(&message)) {
    if (manifest->state_uid().empty()) manifest->set_state_uid(uid);
    if (manifest->execution() == "?" && attempt) manifest->set_execution(attempt->execution());
  } else if (auto* id = dynamic_cast<v1::AttemptId*>(&message)) {
    if (id->execution().empty() && attempt) *id = *attempt;
  }
}

}  // namespace

void ControllerWorld::Send(const Step::Said& said) {
  server::StreamId& stream = streams_[said.stream()];
  if (stream == 0) stream = ++last_stream_;
  server::StreamMessage event{.stream = stream, .message = said.message()};
  FillIn(last_uid_, last_attempt_, event.message);
  Handle(std::move(event));
}

void ControllerWorld::Create(const v1::CreateStateRequest& request) {
  auto placed = PlaceSmall(request.state().spec());
  if (placed.ok()) Ask(server::CreateState{.request = request, .placed = *std::move(placed)});
}

void ControllerWorld::Plan(const Step::Planned& planned) {
  if (questions_.empty()) return;
  const server::StartPlanning question = std::move(questions_.front());
  questions_.pop_front();
  server::Planned answer{.id = question.id, .move = absl::DataLossError("refused")};
  auto target = PlaceSmall(planned.target());
  if (target.ok() && !planned.refused()) {
    server::PlannedExecution move{.target = *std::move(target)};
    const auto& lost = planned.lost_device_ids();
    move.lost_device_ids = {lost.begin(), lost.end()};
    move.moves_nothing = lost.empty() && move.target->spec.SerializeAsString() ==
                                             question.source->spec.SerializeAsString();
    move.plan = "plans/p";
    move.summary.set_windows(planned.windows() & 0xfff);
    for (const auto& placed : {question.source, move.target}) {
      for (const auto& [host, part] : placed->hosts) {
        const auto& ids = part.devices.device_ids;
        const bool spared = std::any_of(ids.begin(), ids.end(), [&](int64_t id) {
          return std::find(lost.begin(), lost.end(), id) != lost.end();
        });
        if (spared) move.spared_hosts.insert(host);
        if (!spared) move.hosts[host] = part.devices;
      }
    }
    answer.move = std::move(move);
  }
  Handle(std::move(answer));
}

void ControllerWorld::Write(uint32_t writes) {
  for (; writes > 0 && !pending_.empty(); --writes) {
    const server::Persist persist = std::move(pending_.front());
    pending_.pop_front();
    for (const server::Record& record : persist.records) {
      if (record.bytes) disk_[record.key] = *record.bytes;
      if (!record.bytes) disk_.erase(record.key);
    }
    Handle(server::Persisted{persist.sequence});
  }
}

void ControllerWorld::Ask(server::Request request) {
  waiting_.insert(++last_call_);
  Handle(server::Call{.id = last_call_, .request = std::move(request)});
}

}  // namespace remesh::fuzz
