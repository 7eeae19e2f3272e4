// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/error_info.h"
#include "worker/agent/agent.h"

namespace remesh {

void Agent::PostEvent(const std::string& key, absl::AnyInvocable<Attempt::Actions(Entry&)> event) {
  strand_->Post([this, key, event = std::move(event)]() mutable {
    const auto it = attempts_.find(key);
    if (it != attempts_.end()) Run(key, event(it->second));
  });
}

void Agent::Run(const std::string& key, Attempt::Actions actions) {
  const auto it = attempts_.find(key);
  if (it == attempts_.end()) return;
  it->second.phase_timer.Enter(it->second.attempt.phase(), *metrics_);
  for (Attempt::Action& action : actions) {
    std::visit([&](const auto& todo) { Do(key, it->second, todo); }, action);
  }
  // An event inside may have ended it already.
  const auto again = attempts_.find(key);
  if (again != attempts_.end() && again->second.attempt.over()) attempts_.erase(again);
}

// Everything that can be refused at once.
absl::StatusOr<Generation> Agent::BeginReserving(Entry& entry) {
  const v1::Prepare& prepare = entry.attempt.prepare();
  const std::string& state = prepare.target().state();
  const Generation* source = store_->Find(state, prepare.source_generation());
  // What an earlier state of that name left is no source.
  if (source != nullptr && source->state_uid() != prepare.target().state_uid()) source = nullptr;
  if (source != nullptr && source->phase() != v1::SHARD_PHASE_READY) {
    const std::string number = absl::StrCat(prepare.source_generation());
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("generation ", number, " of ", state, " is not sealed on this host"),
        {"SOURCE_NOT_READY", {{"state", state}, {"generation", number}}});
  }
  if (source != nullptr) {
    ASSIGN_OR_RETURN(entry.source, store_->Map(state, prepare.source_generation()));
  }
  // No attempt of this life writes it, so what lies there is of one that was given up.
  const Generation* left = store_->Find(state, prepare.target().generation());
  if (left != nullptr && left->pending()) store_->Drop(state, prepare.target().generation());
  return store_->Begin(prepare.target(), v1::SHARD_PHASE_PREPARED, prepare.attempt());
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::Reserve&) {
  auto begun = BeginReserving(entry);
  metrics_->SetBufferBytes(store_->bytes());
  if (!begun.ok()) {
    PostEvent(key, [status = begun.status()](Entry& e) { return e.attempt.Reserved(status); });
    return;
  }
  entry.reserving = std::make_shared<std::atomic<bool>>(false);
  files_->Post([this, key, generation = *std::move(begun), cancelled = entry.reserving]() mutable {
    const absl::Status filled = BufferStore::Fill(generation, cancelled.get());
    strand_->Post([this, key, generation = std::move(generation), filled]() mutable {
      Reserved(key, std::move(generation), filled);
    });
  });
}

// The attempt is still there: it waits for this before it ends.
void Agent::Reserved(const std::string& key, Generation generation, const absl::Status& filled) {
  const std::string state = generation.state();
  const int64_t number = generation.number();
  absl::Status status = store_->Finish(std::move(generation), filled);
  metrics_->SetBufferBytes(store_->bytes());
  Entry& entry = attempts_.at(key);
  entry.reserving = nullptr;
  if (entry.stop_then) return Stop(key, entry);
  if (status.ok()) {
    auto target = store_->Map(state, number);
    status = target.status();
    if (target.ok()) entry.target = *std::move(target);
  }
  Run(key, entry.attempt.Reserved(status));
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::FetchProgram&) {
  const v1::Prepare& prepare = entry.attempt.prepare();
  ProgramRequest request{prepare.plan(), options_.identity.host(), prepare.fingerprint(),
                         prepare.windows(), entry.devices};
  ports_.fetch(std::move(request), [this, key](absl::StatusOr<Program> program) {
    PostEvent(key, [program = std::move(program)](Entry& e) mutable {
      const absl::Status status = program.status();
      if (status.ok()) e.program = *std::move(program);
      return e.attempt.ProgramFetched(status);
    });
  });
}

absl::StatusOr<DataThread::Opening> Agent::MakeOpening(const std::string& key, Entry& entry) {
  const v1::Prepare& prepare = entry.attempt.prepare();
  std::shared_ptr<Scratch> scratch;
  if (const int64_t bytes = StagingBytes(entry.program, entry.devices); bytes > 0) {
    ASSIGN_OR_RETURN(scratch, store_->ReserveScratch(bytes));
  }
  DataThread::Opening opening{
      .self = prepare.self(), .options = options_.mover, .events = MakeEvents(key)};
  ASSIGN_OR_RETURN(opening.moves,
                   BindMoves(std::move(entry.program), entry.devices, std::move(entry.source),
                             std::move(entry.target), std::move(scratch)));
  if (const int64_t bytes = Mover::SlotsFor(opening.moves, options_.mover).bytes(); bytes > 0) {
    ASSIGN_OR_RETURN(opening.moves.slots, store_->ReserveScratch(bytes));
  }
  for (const v1::PeerEntry& peer : prepare.peers()) {
    opening.peer_names.push_back(peer.host());
    Peer& at = opening.peers.emplace_back();
    at.token = peer.token();
    for (const v1::DataAddress& address : peer.data_addresses()) {
      if (address.transport() == data_->transport_name()) at.address = address.address();
    }
    if (at.address.empty()) {
      return MakeError(
          absl::StatusCode::kFailedPrecondition,
          absl::StrCat("host ", peer.host(), " has no address of transport ",
                       data_->transport_name()),
          {"NO_COMMON_TRANSPORT", {{"host", peer.host()}, {"transport", data_->transport_name()}}});
    }
  }
  return opening;
}

Mover::Events Agent::MakeEvents(const std::string& key) {
  Mover::Events events;
  events.window_done = [this, key, before = MoverBytes()](const WindowReport& report) mutable {
    const MoverBytes& now = report.bytes;
    metrics_->WindowDone({now.sent - before.sent, now.received - before.received,
                          now.copied - before.copied, now.pieces_verified - before.pieces_verified},
                         std::chrono::duration<double>(report.duration).count());
    before = now;
    PostEvent(key, [report](Entry& e) { return e.attempt.WindowDone(report); });
  };
  events.failed = [this, key](absl::Status status) {
    metrics_->MovingFailed(status);
    PostEvent(key, [status](Entry& e) { return e.attempt.MovingFailed(status); });
  };
  events.verified = [this, key](absl::Status status) {
    metrics_->MovingFailed(status);
    PostEvent(key, [status](Entry& e) { return e.attempt.SourcesChecked(status); });
  };
  return events;
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::Open&) {
  auto opening = MakeOpening(key, entry);
  metrics_->SetBufferBytes(store_->bytes());
  if (!opening.ok()) {
    PostEvent(key, [status = opening.status()](Entry& e) { return e.attempt.Opened(status); });
    return;
  }
  data_->Open(key, *std::move(opening), [this, key](absl::Status status) {
    PostEvent(key, [status](Entry& e) { return e.attempt.Opened(status); });
  });
}

void Agent::Do(const std::string& key, Entry&, const Attempt::GrantWindows& action) {
  data_->Grant(key, action.until);
}

void Agent::Do(const std::string& key, Entry&, const Attempt::CheckSources&) { data_->Verify(key); }

void Agent::Do(const std::string& key, Entry& entry, const Attempt::MarkVerified&) {
  const v1::Assignment& target = entry.attempt.prepare().target();
  const absl::Status status =
      store_->SetPhase(target.state(), target.generation(), v1::SHARD_PHASE_VERIFIED);
  PostEvent(key, [status](Entry& e) { return e.attempt.MarkedVerified(status); });
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::MarkReady&) {
  const v1::Assignment& target = entry.attempt.prepare().target();
  const Generation* held = store_->Find(target.state(), target.generation());
  const absl::Status status =
      held != nullptr && held->pending()
          ? store_->SetPhase(target.state(), target.generation(), v1::SHARD_PHASE_READY)
          : absl::OkStatus();
  PostEvent(key, [this, status](Entry& e) {
    Attempt::Actions actions = e.attempt.MarkedReady(status);
    calls_.Retry();
    if (e.attempt.phase() == Attempt::Phase::kCommitted)
      buffers_.Announce(e.attempt.prepare().target().state(),
                        e.attempt.prepare().target().generation());
    return actions;
  });
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::StopMoving&) {
  if (entry.reserving == nullptr) return Stop(key, entry);
  *entry.reserving = true;
  entry.stop_then = true;
}

void Agent::Stop(const std::string& key, Entry& entry) {
  entry.source.reset();
  entry.target.reset();
  data_->Stop(key, [this, key] { PostEvent(key, [](Entry& e) { return e.attempt.Stopped(); }); });
}

void Agent::Do(const std::string&, Entry& entry, const Attempt::DropTarget& action) {
  const v1::Prepare& prepare = entry.attempt.prepare();
  const v1::Assignment& target = prepare.target();
  const Generation* held =
      Written(prepare.attempt(), target.state(), target.state_uid(), target.generation());
  if (held != nullptr && (held->pending() || action.even_committed))
    store_->Drop(target.state(), target.generation());
  metrics_->SetBufferBytes(store_->bytes());
}

void Agent::Do(const std::string&, Entry& entry, const Attempt::Say& action) {
  if (action.message.has_failed())
    metrics_->CountError(StatusFromProto(action.message.failed().error()));
  if (action.message.has_committed()) {
    const v1::Assignment& target = entry.attempt.prepare().target();
    return SayCommitted(entry.attempt.prepare().attempt(), target.state(), target.generation());
  }
  ports_.say(action.message);
}

}  // namespace remesh
