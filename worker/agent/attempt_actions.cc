// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "service/log/log.h"
#include "service/rpc/error_info.h"
#include "worker/agent/agent.h"
#include "worker/agent/peer_links.h"
#include "worker/local/state_errors.h"

namespace remesh::worker {
namespace {

// DEVICE_ERROR if a device refuses whatever it is given.
absl::Status CheckDevices(const LocalDevices& devices) {
  for (Device* device : devices.all()) {
    const absl::Status status = device->Allocate(kDeviceAlignment).status();
    if (GetErrorInfo(status).reason == "DEVICE_ERROR") return status;
  }
  return absl::OkStatus();
}

// An earlier move found that another process wrote or cut the files. They may
// look whole again.
absl::Status SourceWasModified(const Generation& source) {
  const char* const help = source.manifest.assignment().write_once()
                               ? "it is written once, so use another state"
                               : "unseal all of its shards, write and seal them";
  const std::string number = absl::StrCat(source.number());
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("another process wrote or cut sealed files of generation ", number,
                                " of ", source.state(), " on this host: ", help),
                   {"SOURCE_MODIFIED", {{"state", source.state()}, {"generation", number}}});
}

}  // namespace

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
  // An event inside may have ended the attempt already.
  const auto again = attempts_.find(key);
  if (again == attempts_.end() || !again->second.attempt.over()) return;
  attempts_.erase(again);
  buffers_.GiveLost();
  FinishForgetting();
  PrepareWaiting();
}

// Maps the source. Its files are watched from before they are looked at, so
// what another process does to them later does not go unseen.
absl::Status Agent::MapSource(Entry& entry, const Generation& source) {
  ASSIGN_OR_RETURN(entry.source, store_->Map(source.state(), source.number()));
  RETURN_IF_ERROR(entry.modify_watch->Add(*entry.source, ModifyWatch::Side::kSource));
  return entry.source->CheckWhole();
}

// Maps the source if it is what was sealed. Whoever reads a page that is missing makes it again, of
// zeros: a later move would find nothing missing.
absl::Status Agent::TakeSource(Entry& entry, const Generation& source) {
  const absl::Status mapped = MapSource(entry, source);
  if (absl::IsFailedPrecondition(mapped) && !source.lent)
    NoteModified(source.state(), source.number());
  RETURN_IF_ERROR(mapped);
  return source.modified() ? SourceWasModified(source) : absl::OkStatus();
}

// Checks all that can be refused at once, and begins the target generation.
absl::StatusOr<Generation> Agent::BeginReserving(Entry& entry) {
  const v1::Prepare& prepare = entry.attempt.prepare();
  const std::string& state = prepare.target().state();
  const Generation* source = store_->Find(state, prepare.source_generation());
  // A generation that an earlier state of that name left is no source.
  if (source != nullptr && source->state_uid() != prepare.target().state_uid()) source = nullptr;
  if (source != nullptr && source->phase() != v1::SHARD_PHASE_READY) {
    const std::string number = absl::StrCat(prepare.source_generation());
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("generation ", number, " of ", state, " is not sealed on this host"),
        {"SOURCE_NOT_READY", {{"state", state}, {"generation", number}}});
  }
  if (source != nullptr) RETURN_IF_ERROR(TakeSource(entry, *source));
  for (const Generation* held : store_->ListOf(state)) {
    if (held->state_uid() != prepare.target().state_uid())
      return StaleShards(options_.identity.host(), state, held->state_uid());
  }
  return store_->Begin(prepare.target(), v1::SHARD_PHASE_PREPARED, prepare.attempt());
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::Reserve&) {
  auto begun = BeginReserving(entry);
  metrics_->SetBufferBytes(store_->bytes());
  if (!begun.ok()) {
    PostEvent(key, [status = begun.status()](Entry& e) { return e.attempt.Reserved(status); });
    return;
  }
  struct Filling {
    Generation generation;
    absl::Status filled = absl::CancelledError("reserving was given up");
  };
  auto filling = std::make_shared<Filling>(Filling{*std::move(begun)});
  entry.reserving = files_.Post(
      [this, filling](const std::atomic<bool>& cancelled) {
        filling->filled = store_->Fill(filling->generation, &cancelled);
      },
      [this, key, filling] { Reserved(key, std::move(filling->generation), filling->filled); });
}

// The attempt is still there: it waits for this before it ends.
void Agent::Reserved(const std::string& key, Generation generation, const absl::Status& filled) {
  const std::string state = generation.state();
  const int64_t number = generation.number();
  absl::Status status = store_->Finish(std::move(generation), filled);
  metrics_->SetBufferBytes(store_->bytes());
  metrics_->SetRecycling(store_->recycling());
  Entry& entry = attempts_.at(key);
  entry.reserving = nullptr;
  if (entry.stop_then) return Stop(key, entry);
  if (status.ok()) {
    auto target = store_->Map(state, number);
    status = target.status();
    if (target.ok()) {
      entry.target = *std::move(target);
      status = entry.modify_watch->Add(*entry.target, ModifyWatch::Side::kTarget);
    }
  }
  Run(key, entry.attempt.Reserved(status));
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::FetchProgram&) {
  const v1::Prepare& prepare = entry.attempt.prepare();
  PlanId plan{.name = prepare.plan(),
              .fingerprint = prepare.fingerprint(),
              .digest = prepare.plan_digest(),
              .windows = prepare.windows()};
  ProgramRequest request{std::move(plan), options_.identity.host(), entry.devices};
  ports_.fetch(std::move(request), [this, key](absl::StatusOr<Program> program) {
    PostEvent(key, [this, program = std::move(program)](Entry& e) mutable {
      const absl::Status status = program.status();
      if (status.ok()) {
        e.program = *std::move(program);
        if (!e.program.plan_compared) metrics_->PlanNotCompared();
      }
      return e.attempt.ProgramFetched(status);
    });
  });
}

struct Agent::Making {
  AttemptDevices devices;
  Program program;
  std::shared_ptr<const MappedShards> source;
  std::shared_ptr<const MappedShards> target;
  DataThread::Opening opening;
  absl::Status status = absl::CancelledError("opening was given up");
};

// Memory for an attempt on a local device; null for 0 bytes.
absl::StatusOr<std::shared_ptr<std::byte>> Agent::AllocateOn(
    int local, int64_t bytes, const std::atomic<bool>& cancelled) const {
  if (bytes == 0) return nullptr;
  const LocalDevices devices = data_->devices();
  if (!devices.in_host_memory()) return devices.Of(local)->Allocate(bytes);
  ASSIGN_OR_RETURN(auto memory, store_->ReserveScratch(bytes, &cancelled));
  std::byte* const data = memory->bytes().data();
  return std::shared_ptr<std::byte>(std::move(memory), data);
}

absl::Status Agent::Make(Making& making, const std::atomic<bool>& cancelled) const {
  const LocalDevices devices = data_->devices();
  ASSIGN_OR_RETURN(auto source, ReachedBy(devices, std::move(making.source)));
  ASSIGN_OR_RETURN(auto target, ReachedBy(devices, std::move(making.target)));
  std::vector<std::shared_ptr<std::byte>> scratch;
  std::vector<std::byte*> staging;
  for (const int64_t bytes : StagingBytes(making.program, making.devices)) {
    ASSIGN_OR_RETURN(auto memory, AllocateOn(static_cast<int>(scratch.size()), bytes, cancelled));
    staging.push_back(memory.get());
    scratch.push_back(std::move(memory));
  }
  WholeMessages whole{.here = !devices.in_host_memory()};
  for (const Peer& peer : making.opening.peers) whole.with_peer.push_back(peer.windowed);
  MoveList& moves = making.opening.moves;
  ASSIGN_OR_RETURN(moves, BindMoves(std::move(making.program), making.devices, std::move(source),
                                    std::move(target), staging, whole));
  moves.scratch = std::move(scratch);
  moves.in_host_memory = devices.in_host_memory();
  return MakeRoom(moves, cancelled);
}

// Finds the memory for slices on their way.
absl::Status Agent::MakeRoom(MoveList& moves, const std::atomic<bool>& cancelled) const {
  const TransitLayout layout = LayOutTransit(moves);
  for (const int64_t bytes : layout.bytes) {
    ASSIGN_OR_RETURN(moves.transit.emplace_back(),
                     AllocateOn(static_cast<int>(moves.transit.size()), bytes, cancelled));
  }
  const int64_t bytes = SlicePlaces::HostBytesFor(moves, options_.mover.limits, data_->gathers());
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(moves.slots, store_->ReserveScratch(bytes, &cancelled));
  for (size_t local = 0; local < layout.bytes.size(); ++local) {
    Device* const device = data_->devices().Of(static_cast<int>(local));
    ASSIGN_OR_RETURN(moves.slots_on.emplace_back(), moves.slots->ReachedBy(*device));
  }
  return absl::OkStatus();
}

Mover::Events Agent::MakeEvents(const std::string& key, bool encrypted) {
  Mover::Events events;
  events.window_done = [this, key, encrypted,
                        before = MoverBytes()](const WindowReport& report) mutable {
    const MoverBytes& now = report.bytes;
    metrics_->WindowDone(now.Since(before), std::chrono::duration<double>(report.duration).count(),
                         encrypted);
    before = now;
    PostEvent(key, [report](Entry& e) { return e.attempt.WindowDone(report); });
  };
  events.failed = [this, key](absl::Status status) {
    metrics_->MovingFailed(status);
    PostEvent(key, [status](Entry& e) { return e.attempt.MovingFailed(status); });
  };
  events.rests = [this, key] {
    PostEvent(key, [](Entry& e) {
      e.rests = true;
      return Attempt::Actions();
    });
  };
  events.verified = [this, key](absl::Status status) {
    metrics_->MovingFailed(status);
    PostEvent(key, [status](Entry& e) { return e.attempt.SourcesChecked(status); });
  };
  return events;
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::Open&) {
  const v1::Prepare& prepare = entry.attempt.prepare();
  auto peers = PeersOf(prepare, LinksOf(*data_));
  absl::StatusOr<Lasting> lasting =
      peers.ok() ? LastingOf(prepare, *peers) : absl::StatusOr<Lasting>(peers.status());
  if (!lasting.ok()) {
    PostEvent(key, [status = lasting.status()](Entry& e) { return e.attempt.Opened(status); });
    return;
  }
  const bool encrypted =
      std::any_of(peers->begin(), peers->end(), [](const Peer& peer) { return peer.encrypted; });
  auto making = std::make_shared<Making>(Making{.devices = entry.devices,
                                                .program = std::move(entry.program),
                                                .source = std::move(entry.source),
                                                .target = std::move(entry.target),
                                                .opening = {.id = prepare.attempt(),
                                                            .self = prepare.self(),
                                                            .peers = *std::move(peers),
                                                            .lasting = *std::move(lasting),
                                                            .options = options_.mover,
                                                            .events = MakeEvents(key, encrypted)}});
  making->opening.options.modify_watch = entry.modify_watch;
  for (const v1::PeerEntry& peer : prepare.peers())
    making->opening.peer_names.push_back(peer.host());
  entry.reserving = files_.Post(
      [this, making](const std::atomic<bool>& cancelled) {
        making->status = Make(*making, cancelled);
      },
      [this, key, making] { Made(key, *making); });
}

// The attempt is still there: it waits for this before it ends.
void Agent::Made(const std::string& key, Making& making) {
  metrics_->SetBufferBytes(store_->bytes());
  Entry& entry = attempts_.at(key);
  entry.reserving = nullptr;
  if (entry.stop_then) return Stop(key, entry);
  if (!making.status.ok()) return Run(key, entry.attempt.Opened(making.status));
  const auto& peers = making.opening.peers;
  const bool connects = std::ranges::count(peers, true, &Peer::windowed) > 1;
  const bool reused = making.opening.lasting.reused;
  data_->Open(key, std::move(making.opening), [=, this](absl::Status status) {
    if (connects && status.ok()) metrics_->CommunicatorsOpened(reused);
    PostEvent(key, [status](Entry& e) { return e.attempt.Opened(status); });
  });
}

void Agent::Do(const std::string& key, Entry&, const Attempt::GrantWindows& action) {
  data_->Grant(key, action.until);
}

void Agent::Do(const std::string& key, Entry&, const Attempt::CheckSources&) { data_->Verify(key); }

absl::Status Agent::SetTargetPhase(const Entry& entry, v1::ShardPhase phase) {
  const v1::Assignment& target = entry.attempt.prepare().target();
  const Generation* held = Written(entry.attempt.prepare().attempt(), target.state(),
                                   target.state_uid(), target.generation());
  if (held != nullptr && held->pending())
    return store_->SetPhase(target.state(), target.generation(), phase);
  if (held != nullptr && phase == v1::SHARD_PHASE_READY) return absl::OkStatus();
  const std::string number = absl::StrCat(target.generation());
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("generation ", number, " of ", target.state(), " was freed on this host"),
      {"GENERATION_NOT_FOUND", {{"state", target.state()}, {"generation", number}}});
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::MarkVerified&) {
  const absl::Status status = SetTargetPhase(entry, v1::SHARD_PHASE_VERIFIED);
  PostEvent(key, [status](Entry& e) { return e.attempt.MarkedVerified(status); });
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::MarkReady&) {
  const absl::Status status = SetTargetPhase(entry, v1::SHARD_PHASE_READY);
  PostEvent(key, [this, status](Entry& e) {
    Attempt::Actions actions = e.attempt.MarkedReady(status);
    calls_.Retry(e.attempt.prepare().target().state());
    if (e.attempt.phase() == Attempt::Phase::kCommitted)
      buffers_.Announce(e.attempt.prepare().target().state(),
                        e.attempt.prepare().target().generation());
    return actions;
  });
}

void Agent::Do(const std::string& key, Entry&, const Attempt::LookAgain& action) {
  data_->LookAgain(key, action.chunk, [this, key](absl::Status status) {
    if (!status.ok()) metrics_->CountError(status);
    PostEvent(key, [status](Entry& e) { return e.attempt.LookedAgain(status); });
  });
}

void Agent::Do(const std::string& key, Entry&, const Attempt::AskWaits&) {
  data_->AskWaits(key, [this, key](absl::Status status) {
    PostEvent(key, [status](Entry& e) { return e.attempt.LookedAgain(status); });
  });
}

void Agent::Do(const std::string& key, Entry& entry, const Attempt::StopMoving&) {
  if (entry.reserving == nullptr) return Stop(key, entry);
  entry.stop_then = true;
  entry.reserving->Cancel();
}

void Agent::Stop(const std::string& key, Entry& entry) {
  entry.source.reset();
  entry.target.reset();
  const bool well = entry.attempt.phase() == Attempt::Phase::kCommitted;
  const v1::Communicators& communicators = entry.attempt.prepare().communicators();
  if (!well && communicators.reuse()) data_->DropLasting(communicators.name());
  data_->Stop(
      key,
      [this, key] {
        PostEvent(key, [this](Entry& e) {
          // Nothing reads the source any more, so nothing makes its pages again
          // from now on.
          NoteModified(e);
          return e.attempt.Stopped();
        });
      },
      well);
}

void Agent::NoteModified(const Entry& entry) {
  const v1::Prepare& prepare = entry.attempt.prepare();
  if (entry.modify_watch->source_modified())
    NoteModified(prepare.target().state(), prepare.source_generation());
}

// Writes down that a source is not what was sealed: this process may end at any
// moment, and the next life finds every page there.
void Agent::NoteModified(const std::string& state, int64_t generation) {
  const absl::Status noted = store_->NoteModified(state, generation);
  if (noted.ok()) return;
  metrics_->CountError(noted);
  service::LogWarning("a restarted worker will not know that a source was modified",
                      {{"state", state}, {"error", noted}});
}

void Agent::Do(const std::string&, Entry& entry, const Attempt::DropTarget& action) {
  const v1::Prepare& prepare = entry.attempt.prepare();
  const v1::Assignment& target = prepare.target();
  const Generation* held =
      Written(prepare.attempt(), target.state(), target.state_uid(), target.generation());
  if (held != nullptr && (held->pending() || action.even_committed))
    store_->Recycle(target.state(), target.generation());
  calls_.Retry(target.state());
  metrics_->SetBufferBytes(store_->bytes());
}

void Agent::Do(const std::string&, Entry& entry, const Attempt::Send& action) {
  if (action.message.has_failed()) {
    NoteModified(entry);  // first: the planner may try again at once
    metrics_->CountError(service::StatusFromProto(action.message.failed().error()));
  }
  if (action.message.has_committed()) {
    const v1::Assignment& target = entry.attempt.prepare().target();
    const std::string& made = entry.attempt.prepare().communicators().name();
    return SendCommitted(entry.attempt.prepare().attempt(), target.state(), target.generation(),
                         entry.rests ? made : "");
  }
  ports_.send(action.message);
  if (!action.message.has_failed()) return;
  // The loss of a peer says nothing of the devices, on which kernels may still run.
  if (GetErrorInfo(service::StatusFromProto(action.message.failed().error())).reason == "PEER_LOST")
    return;
  if (const absl::Status status = CheckDevices(data_->devices()); !status.ok())
    ports_.unusable(status);
}

}  // namespace remesh::worker
