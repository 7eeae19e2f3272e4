// SPDX-License-Identifier: Apache-2.0
#include "server/core.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "base/caller_gone.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random_bytes.h"
#include "base/status_macros.h"
#include "server/callers/caller.h"
#include "server/coordination/coordinator.h"
#include "server/questions/create_plan.h"
#include "server/questions/execution_plan.h"
#include "server/questions/place_state.h"
#include "service/log/log.h"
#include "service/process/heap.h"

namespace remesh::server {
namespace {

// Calls that the strand makes before it runs other tasks. With one at a time, every call would wait
// for all messages that a busy worker has sent in the meantime.
constexpr size_t kCallsInTurn = 16;
// Messages of workers that the strand handles, and commands to workers that it sends, before it
// runs other tasks. In a large move both come by the thousand, and each takes some 20 to 50
// microseconds.
constexpr size_t kMessagesInTurn = 64;
constexpr size_t kCommandsInTurn = 32;
constexpr int64_t kLargeShards = 1000;  // of a state; freeing them takes about as many microseconds

Moment Now() { return {.steady = SteadyClock().Now(), .wall = absl::Now()}; }

uint64_t MachineRandom() {
  uint64_t bits;
  const std::string bytes = RandomBytes(sizeof(bits));  // the kernel's: attempt tokens are secrets
  std::memcpy(&bits, bytes.data(), sizeof(bits));
  return bits;
}

absl::Duration TickInterval(Timestamp lost_after) {
  return std::clamp(absl::FromChrono(lost_after) / 10, absl::Milliseconds(10),
                    absl::Milliseconds(250));
}

Core::Options WithTickInterval(Core::Options options) {
  options.controller.tick_interval =
      absl::ToChronoNanoseconds(TickInterval(options.controller.lost_after));
  return options;
}

// Null when plans are to be kept in memory only, or cannot be kept on disk.
std::unique_ptr<PlanStore> OpenPlanStore(const PlanStore::Options& options) {
  if (options.path.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<PlanStore>> store = PlanStore::Open(options);
  if (store.ok()) return *std::move(store);
  service::LogWarning("plans are kept in memory only", {{"error", store.status()}});
  return nullptr;
}

constexpr int kLookupThreads = 4;
constexpr int kLongLookupThreads = 2;
constexpr int kTalkers = 2;
constexpr int kWriters = 2;  // of which one caller may use one
// Threads for work that may take long yield to those that answer calls.
constexpr int kPatientNice = 10;
constexpr absl::Duration kReconfigurePatience = absl::Seconds(1);
constexpr absl::Duration kDrainLook = absl::Milliseconds(10);
// How long one question may hold up others: while eight callers ask the worst questions one after
// another, a ninth waits for eight of these.
constexpr absl::Duration kLookupQuantum = absl::Milliseconds(100);
constexpr absl::Duration kPlanningQuantum = absl::Milliseconds(150);

}  // namespace

Core::Core(Options options, CoreObserver& observer)
    : options_(WithTickInterval(std::move(options))),
      observer_(observer),
      plan_store_(OpenPlanStore(options_.plan_store)),
      plans_(PlanCache::Options{.limits = {.max_bytes = options_.plan_cache_bytes,
                                           .max_entries = options_.plan_cache_entries,
                                           .max_age = options_.plan_cache_age},
                                .disk = plan_store_ != nullptr ? plan_store_.get() : &NoDisk()}),
      topology_(options_.controller.topology_rules.domains()),
      quick_planners_({.threads = 1,
                       .execution_threads = 1,
                       .waiting_max = options_.waiting_max,
                       .fair = true}),
      planners_({.threads = options_.planner_threads,
                 .execution_threads = 1,
                 .waiting_max = options_.waiting_max,
                 .nice = kPatientNice,
                 .fair = true}),
      lookups_({.threads = kLookupThreads,
                .execution_threads = 1,
                .waiting_max = options_.waiting_max,
                .fair = true}),
      long_lookups_({.threads = kLongLookupThreads,
                     .execution_threads = 1,
                     .waiting_max = options_.waiting_max,
                     .nice = kPatientNice,
                     .fair = true}),
      writers_(
          {.threads = kWriters,
           .waiting_max = std::numeric_limits<size_t>::max(),  // gRPC and OpenWatches limit them
           .fair = true}),
      talkers_({.threads = kTalkers,
                .waiting_max = std::numeric_limits<size_t>::max(),  // by the limits of worlds
                .fair = true}),
      streamers_(options_.stream_threads, options_.waiting_max),
      programs_(options_.stream_threads, options_.programs_waiting_max),
      desk_(plans_, {lookups_, long_lookups_, kLookupQuantum},
            {quick_planners_, planners_, kPlanningQuantum}, options_.planning),
      precomputer_(plans_, planners_, desk_),
      callers_(strand_, kCallsInTurn),
      messages_(strand_, kMessagesInTurn),
      commands_(strand_, kCommandsInTurn) {}

absl::StatusOr<std::unique_ptr<Core>> Core::Start(Options options, std::unique_ptr<Journal> journal,
                                                  CoreObserver& observer) {
  std::unique_ptr<Core> core(new Core(options, observer));
  if (core->plan_store_ != nullptr) RestorePins(core->plans_, *core->plan_store_);
  RETURN_IF_ERROR(core->Restore(std::move(journal)));
  core->ticker_ = std::thread([core = core.get()] { core->Tick(); });
  return core;
}

absl::Status Core::Restore(std::unique_ptr<Journal> journal) {
  using Records = std::map<std::string, std::string>;
  ASSIGN_OR_RETURN(const Records records, journal->ReadAll());
  ASSIGN_OR_RETURN(Restored restored, ReadRecords(records, [](const v1::StateSpec& spec) {
                     return PlaceState(spec, nullptr);
                   }));
  for (const auto& [name, state] : restored.states) KeepLayout(state.placed);
  for (const auto& [name, placed] : restored.next_states) KeepLayout(placed);
  restored.past = journal->past();
  const std::string journal_path = journal->path();
  ControllerOptions options = options_.controller;
  options.is_present = [this](const std::string& scope, int64_t epoch) {
    return fences_.CheckFence(scope, epoch);
  };
  SaveWorlds worlds = std::exchange(restored.worlds, {});
  const bool went_back = restored.past.accepts_older;
  controller_ =
      std::make_unique<Controller>(std::move(options), MachineRandom, std::move(restored));
  writer_ = std::make_unique<JournalWriter>(
      std::move(journal),
      JournalWriter::Callbacks{
          .persisted =
              [this](uint64_t sequence, bool full) {
                Post([this, sequence, full] { Handle(Persisted{sequence, full}); });
              },
          .failed = [this](absl::Status status) { observer_.OnFatal(status); },
          .lost = [this](absl::Status status) { Post([=, this] { OnJournalLost(status); }); }});
  backups_ = std::make_unique<JournalBackups>(journal_path, *writer_);
  Post([this] { Perform(controller_->Start(Now())); });
  if (went_back) ForgetWorlds(worlds);
  StartCoordinator(worlds);
  return absl::OkStatus();
}

// After the journal went back: a world that it lacks may have formed, so no fence of a world that
// it has may pass, and no epoch may be given that it may have forgotten.
void Core::ForgetWorlds(SaveWorlds& worlds) {
  worlds.last_epoch = coordination::EpochBeyond(worlds.last_epoch, absl::Now());
  SaveWorlds request{.last_epoch = worlds.last_epoch};
  for (const auto& [scope, world] : worlds.worlds) request.worlds[scope] = std::nullopt;
  worlds.worlds.clear();
  Call(std::move(request), [](const absl::StatusOr<Reply>&) {});
}

void Core::StartCoordinator(const SaveWorlds& known) {
  std::map<std::string, coordination::KnownEpoch> epochs;
  for (const auto& [scope, world] : known.worlds) {
    epochs[scope] = {.epoch = world->epoch, .size = world->size, .formed = world->formed};
  }
  auto save = [this](const std::string& scope, std::optional<coordination::KnownEpoch> present,
                     int64_t last_epoch, coordination::Coordinator::SavedFn saved) {
    SaveWorlds request{.last_epoch = last_epoch, .worlds = {{scope, std::nullopt}}};
    if (present) {
      request.worlds[scope] =
          SavedWorld{.epoch = present->epoch, .size = present->size, .formed = present->formed};
    }
    Call(std::move(request),
         [saved = std::move(saved)](const absl::StatusOr<Reply>& reply) mutable {
           saved(reply.status());
         });
  };
  coordination::Coordinator::Callbacks callbacks{
      .save = std::move(save),
      .round_ended = [this](coordination::Ending ending,
                            absl::Duration duration) { observer_.OnRoundEnded(ending, duration); },
      .figures = [this](const coordination::WorldFigures& worlds) { observer_.OnWorlds(worlds); }};
  coordinator_ = std::make_unique<coordination::Coordinator>(
      known.last_epoch, epochs, options_.message_bytes_max, std::move(callbacks), fences_);
}

Core::~Core() {
  Shutdown();
  {
    absl::MutexLock lock(&ticker_mutex_);
    ticker_stops_ = true;
  }
  if (ticker_.joinable()) ticker_.join();
  if (coordinator_ != nullptr) coordinator_->Stop();
  for (ThreadPool* pool :
       {&quick_planners_, &planners_, &lookups_, &long_lookups_, &writers_, &talkers_})
    pool->Stop();
  streamers_.Stop();
  programs_.Stop();
  strand_.Stop();
  writer_ = nullptr;  // still writes everything that was asked for
}

template <typename F>
bool Core::Post(F task) {
  return strand_.Post(std::move(task));
}

void Core::Handle(Event event) {
  Perform(controller_->Handle(std::move(event), Now()));
  running_ = controller_->executions_running();
  journal_behind_ = controller_->journal_behind();
}

void Core::OnJournalLost(const absl::Status& why) {
  service::LogError("the journal's files are gone: nothing is decided any more", {{"error", why}});
  Handle(JournalLost{.why = why});
  journal_lost_ = true;
  calls_.AnswerAll(why);  // what they wait for will never be durable
}

void Core::Perform(Actions actions) {
  for (Action& action : actions) {
    std::visit([this](auto& what) { Do(what); }, action);
  }
}

void Core::Call(CallId id, Request request, ReplyFn reply, const std::string& caller, Gone gone) {
  if (const auto* create = std::get_if<CreateState>(&request)) KeepLayout(create->placed);
  callers_.Push(caller, [this, id, caller, reply = std::move(reply), request = std::move(request),
                         gone = std::move(gone)]() mutable {
    if (shut_down_) return reply(ShuttingDown());
    if (gone != nullptr && gone()) return reply(CallerGone());
    calls_.Add(id, std::move(reply), caller, std::move(gone));
    Handle(server::Call{.id = id, .request = std::move(request)});
  });
}

void Core::EndCall(CallId id, const std::string& caller) {
  callers_.Push(caller, [this, id] {
    calls_.Answer(id, CallerGone());
    if (!shut_down_) Handle(CallerLeft{.call = id});
  });
}

void Core::PostFor(const std::optional<std::string>& caller, FairQueue::Task task) {
  if (caller) return callers_.Push(*caller, std::move(task));
  messages_.Push(std::move(task));
}

void Core::KeepLayout(std::shared_ptr<const PlacedState> placed) {
  if (placed != nullptr && placed->total_shards >= kLargeShards) layouts_.Add(std::move(placed));
}

void Core::OpenStream(std::shared_ptr<WorkerSink> sink, const std::string& caller) {
  const StreamId id = next_id_++;
  callers_.Push(caller, [this, id, sink = std::move(sink)] {
    if (shut_down_) sink->Close(ShuttingDown());
    if (!sink->Begin(id)) return;
    streams_[id] = sink;
    Handle(StreamOpened{id});
  });
}

void Core::OnStreamMessage(StreamMessage message, absl::AnyInvocable<void()> handled,
                           const std::optional<std::string>& caller) {
  const bool hurries = caller || !message.message.has_heartbeat();
  FairQueue::Task handle = [this, message = std::move(message),
                            handled = std::move(handled)]() mutable {
    if (streams_.contains(message.stream)) Handle(std::move(message));
    handled();
  };
  if (!hurries) return messages_.PushQuietly(std::move(handle));
  PostFor(caller, std::move(handle));
}

void Core::OnStreamEnded(StreamId stream, const std::optional<std::string>& caller) {
  PostFor(caller, [this, stream] {
    if (streams_.erase(stream) > 0) Handle(StreamEnded{stream});
  });
}

WatchId Core::Watch(const std::string& name, std::shared_ptr<WatchSink> sink,
                    const std::string& caller) {
  const WatchId id = next_id_++;
  callers_.Push(caller, [this, id, name, sink = std::move(sink)] {
    if (sink->Ended()) return;
    if (shut_down_) return sink->End(ShuttingDown());
    watches_[id] = sink;
    Handle(WatchStarted{.id = id, .name = name});
  });
  return id;
}

void Core::EndWatch(WatchId watch, OpenWatches::Place place) {
  const std::string caller = place.caller();
  callers_.Push(caller, [this, watch, place = std::move(place)]() mutable {
    if (watches_.erase(watch) > 0) Handle(WatchEnded{watch});
    place = {};
  });
}

absl::Status Core::SetLive(LiveOptions options, const MemoryTier::Limits& plans) {
  auto shared = std::make_shared<const LiveOptions>(std::move(options));
  auto answer = std::make_shared<absl::Status>();
  auto answered = std::make_shared<absl::Notification>();
  const CallId id = next_id_++;
  Post([=, this] {
    const auto reply = [=](const absl::StatusOr<Reply>& reply) {
      *answer = reply.status();
      answered->Notify();
    };
    calls_.Add(id, reply, /*caller=*/"", /*gone=*/nullptr);
    Handle(Reconfigure{.call = id, .options = shared});
  });
  if (!answered->WaitForNotificationWithTimeout(kReconfigurePatience)) {
    return absl::UnavailableError("the controller does not answer");
  }
  RETURN_IF_ERROR(*answer);
  plans_.SetLimits(plans);
  return absl::OkStatus();
}

bool Core::AwaitNoExecution(absl::Duration patience) {
  for (const absl::Time end = absl::Now() + patience; running_ > 0; absl::SleepFor(kDrainLook)) {
    if (absl::Now() >= end) return false;
  }
  return true;
}

void Core::Drain(std::chrono::nanoseconds patience) {
  auto begun = std::make_shared<absl::Notification>();
  Post([this, begun] {
    Handle(server::Drain{});
    begun->Notify();
  });
  begun->WaitForNotificationWithTimeout(kReconfigurePatience);
  if (AwaitNoExecution(absl::FromChrono(patience))) return;
  service::LogWarning("executions are ended, their sources stay", {{"running", running_.load()}});
  Post([this] { Handle(server::Drain{.at_once = true}); });
  // Workers have quiesce_timeout to end their attempts. Decided executions go on under the next
  // server.
  AwaitNoExecution(absl::FromChrono(options_.controller.quiesce_timeout) + absl::Seconds(1));
}

void Core::Shutdown() {
  if (coordinator_ != nullptr) coordinator_->Shutdown();
  absl::Notification done;
  const bool posted = Post([this, &done] {
    shut_down_ = true;
    calls_.AnswerAll(ShuttingDown());
    for (auto& [id, stream] : std::exchange(streams_, {})) stream->Close(ShuttingDown());
    for (auto& [id, watch] : std::exchange(watches_, {})) watch->End(ShuttingDown());
    callers_.RunWaiting();  // refuses them; later ones are refused in their turn
    done.Notify();
  });
  if (posted) done.WaitForNotification();
  desk_.Stop();
  plans_.watchers().EndAll(ShuttingDown());
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
  if (shared->targets) return PlanTargets(std::move(shared), std::move(asker));
  auto move = std::make_shared<PlannedExecution>();
  desk_.Run(
      std::move(asker),
      [this, shared, move](planner::Budget& budget) {
        ASSIGN_OR_RETURN(*move, MoveByName(plans_, *shared, topology().get(), budget));
        return absl::OkStatus();
      },
      [this, shared, move](absl::Status status) {
        if (!status.ok()) return FinishPlanning(shared->id, std::move(status));
        FinishPlanning(shared->id, std::move(*move));
      },
      PlanDesk::Place::kLookups);
}

void Core::PlanTargets(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker) {
  struct Asked {
    Timestamp start = SteadyClock().Now();
    MoveQuestion move;  // less its question
  };
  auto asked = std::make_shared<Asked>();
  desk_.Find(
      asker,
      [this, action, asked](planner::Budget& budget) -> absl::StatusOr<PlanCache::Question> {
        ASSIGN_OR_RETURN(asked->move, QuestionOf(*action, topology().get(), plans_, budget));
        const bool plans = !asked->move.moves_nothing && !asked->move.answer;
        if (!plans) return absl::CancelledError("there is nothing to plan");
        return std::exchange(asked->move.question, {});
      },
      [this, action, asked, asker](absl::StatusOr<PlanCache::Answer> answer) {
        MoveQuestion& move = asked->move;
        if (move.moves_nothing) return FinishPlanning(action->id, MovesNothing(*action));
        if (move.answer) answer = *std::move(move.answer);
        if (!answer.ok()) return FinishPlanning(action->id, answer.status());
        plans_.memo().Remember(move.words, answer->plan->name);
        FinishTargets(action, asker, std::move(move.target), *std::move(answer), asked->start);
      },
      /*long_form=*/action->options.free_target_order());
}

void Core::FinishTargets(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker,
                         std::shared_ptr<const PlacedState> target, PlanCache::Answer answer,
                         Timestamp start) {
  auto move = std::make_shared<PlannedExecution>();
  const std::string plan = answer.plan->name;
  desk_.Run(
      std::move(asker),
      [action, move, target = std::move(target), answer = std::move(answer),
       start](planner::Budget& budget) {
        ASSIGN_OR_RETURN(*move, MoveOf(*action, target, answer, start, budget));
        return absl::OkStatus();
      },
      [this, action, move, plan](absl::Status status) {
        if (status.ok()) return FinishPlanning(action->id, std::move(*move));
        if (action->keep) plans_.EndUse(plan);
        FinishPlanning(action->id, std::move(status));
      },
      PlanDesk::Place::kLookups);
}

void Core::FinishPlanning(uint64_t id, absl::StatusOr<PlannedExecution> move) {
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

// Counting looks at every host of every state, so it may take a hundredth of the time at most.
void Core::ShowGauges() {
  const Timestamp start = SteadyClock().Now();
  if (start < next_gauges_) return;
  observer_.OnGauges(controller_->gauges(), plans_.stats());
  const Timestamp end = SteadyClock().Now();
  next_gauges_ = end + 100 * (end - start);
}

void Core::Tick() {
  const absl::Duration interval = TickInterval(options_.controller.lost_after);
  service::HeapTrimmer trimmer;
  while (true) {
    {
      absl::MutexLock lock(&ticker_mutex_);
      if (ticker_mutex_.AwaitWithTimeout(absl::Condition(&ticker_stops_), interval)) return;
    }
    plans_.Tick();
    layouts_.DropUnused();
    trimmer.Trim();
    writer_->LookForFiles();
    // After the messages that wait: no host counts as silent whose message has come.
    messages_.Push([this] {
      Handle(server::Tick{});
      ShowGauges();
    });
  }
}

}  // namespace remesh::server
