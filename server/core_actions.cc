// SPDX-License-Identifier: Apache-2.0
// What the controller wants done, and what follows for it.
#include <memory>
#include <utility>
#include <variant>

#include "server/callers/caller.h"
#include "server/core.h"

namespace remesh::server {
namespace {

constexpr int64_t kLargeShards = 1000;  // of a state; freeing them takes about as many microseconds

}  // namespace

void Core::Perform(Actions actions) {
  for (Action& action : actions) {
    std::visit([this](auto& what) { Do(what); }, action);
  }
}

void Core::KeepLayout(std::shared_ptr<const PlacedState> placed) {
  if (placed != nullptr && placed->total_shards >= kLargeShards) layouts_.Add(std::move(placed));
}

void Core::Do(SendToWorker& action) {
  commands_.Push([this, action = std::move(action)]() mutable {
    auto stream = streams_.find(action.stream);
    if (stream != streams_.end()) stream->second->Send(std::move(action.message));
  });
}

void Core::Do(SendLater& action) {
  commands_.Push([this, action = std::move(action)]() mutable {
    auto stream = streams_.find(action.stream);
    if (stream != streams_.end()) stream->second->SendLater(std::move(action.commands));
  });
}

void Core::Do(CloseStream& action) {
  auto stream = streams_.extract(action.stream);
  if (!stream.empty()) stream.mapped()->Close(action.status);
}

void Core::Do(Persist& action) { writer_->Write(std::move(action)); }

void Core::Do(ReplyTo& action) { calls_.Answer(action.call, std::move(action.reply)); }

void Core::Do(Notify& action) {
  auto watch = watches_.find(action.watch);
  if (watch != watches_.end()) watch->second->Offer(std::move(action.value));
}

void Core::Do(server::EndWatch& action) {
  auto watch = watches_.extract(action.watch);
  if (!watch.empty()) watch.mapped()->End(action.status);
}

// Plans an execution even if the caller hangs up, because the caller may come back with the same
// request_id. What is only asked is work for its caller.
void Core::Do(StartPlanning& action) {
  auto shared = std::make_shared<const StartPlanning>(std::move(action));
  PlanDesk::Asker asker = shared->question != 0
                              ? calls_.AskerOf(shared->question)
                              : PlanDesk::Asker{.turn = {.caller = CallerOfState(shared->state),
                                                         .execution = shared->keep},
                                                .gone = nullptr};
  moves_.Plan(std::move(shared), std::move(asker));
}

void Core::OnPlanned(uint64_t id, absl::StatusOr<PlannedExecution> move) {
  if (move.ok()) observer_.OnPlanned(move->planning, move->compute_seconds);
  // A move to where the state is has the target that its source has.
  if (move.ok() && !move->moves_nothing) KeepLayout(move->target);
  Post([this, id, move = std::move(move)]() mutable {
    Handle(Planned{.id = id, .move = std::move(move)});
  });
}

void Core::Do(ReleasePlan& action) { plans_.EndUse(action.plan); }

void Core::Do(TopologyChanged& action) { topology_.Apply(std::move(action)); }

void Core::Do(ExecutionEnded& action) { observer_.OnExecutionEnded(action); }

void Core::Do(Note& action) { observer_.OnLog(action); }

}  // namespace remesh::server
