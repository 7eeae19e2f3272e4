// SPDX-License-Identifier: Apache-2.0
#include "server/core.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random_bytes.h"
#include "base/status_macros.h"
#include "server/coordination/coordinator.h"
#include "server/coordination/saved_epochs.h"
#include "server/questions/create_plan.h"
#include "server/questions/place_state.h"
#include "service/log/log.h"

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
      threads_(options_),
      desk_(plans_, {threads_.lookups, threads_.long_lookups, kLookupQuantum},
            {threads_.quick_planners, threads_.planners, kPlanningQuantum}, options_.planning),
      moves_(plans_, desk_, topology_,
             [this](uint64_t id, absl::StatusOr<PlannedExecution> move) {
               OnPlanned(id, std::move(move));
             }),
      precomputer_(plans_, threads_.planners, desk_),
      callers_(strand_, kCallsInTurn),
      messages_(strand_, kMessagesInTurn),
      commands_(strand_, kCommandsInTurn) {}

absl::StatusOr<std::unique_ptr<Core>> Core::Start(Options options, std::unique_ptr<Journal> journal,
                                                  CoreObserver& observer) {
  std::unique_ptr<Core> core(new Core(options, observer));
  if (core->plan_store_ != nullptr) RestorePins(core->plans_, *core->plan_store_);
  RETURN_IF_ERROR(core->Restore(std::move(journal)));
  core->ticker_.Start(TickInterval(core->options_.controller.lost_after),
                      [core = core.get()] { core->Tick(); });
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
  if (went_back) {
    Call(coordination::ForgetAll(worlds, absl::Now()), [](const absl::StatusOr<Reply>&) {});
  }
  StartCoordinator(worlds);
  return absl::OkStatus();
}

void Core::StartCoordinator(const SaveWorlds& known) {
  auto save = [this](const std::string& scope, std::optional<coordination::KnownEpoch> present,
                     int64_t last_epoch, coordination::Coordinator::SavedFn saved) {
    Call(coordination::SaveOf(scope, present, last_epoch),
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
      known.last_epoch, coordination::EpochsOf(known), options_.message_bytes_max,
      std::move(callbacks), fences_);
}

Core::~Core() {
  Shutdown();
  ticker_.Stop();
  if (coordinator_ != nullptr) coordinator_->Stop();
  threads_.Stop();
  strand_.Stop();
  writer_ = nullptr;  // still writes everything that was asked for
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

// Counting looks at every host of every state, so it may take a hundredth of the time at most.
void Core::ShowGauges() {
  const Timestamp start = SteadyClock().Now();
  if (start < next_gauges_) return;
  observer_.OnGauges(controller_->gauges(), plans_.stats());
  const Timestamp end = SteadyClock().Now();
  next_gauges_ = end + 100 * (end - start);
}

void Core::Tick() {
  plans_.Tick();
  layouts_.DropUnused();
  trimmer_.Trim();
  writer_->LookForFiles();
  // After the messages that wait: no host counts as silent whose message has come.
  messages_.Push([this] {
    Handle(server::Tick{});
    ShowGauges();
  });
}

}  // namespace remesh::server
