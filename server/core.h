// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/strand.h"
#include "planner/values/topology.h"
#include "server/cache/plan_cache.h"
#include "server/cache/plan_store.h"
#include "server/callers/caller_turns.h"
#include "server/callers/last_references.h"
#include "server/callers/open_calls.h"
#include "server/callers/open_watches.h"
#include "server/callers/turn_lane.h"
#include "server/controller/controller.h"
#include "server/coordination/fences.h"
#include "server/coordination/figures.h"
#include "server/journal/journal_backup.h"
#include "server/journal/journal_writer.h"
#include "server/planning/fair_queue.h"
#include "server/planning/plan_desk.h"
#include "server/planning/precompute.h"
#include "server/planning/stream_threads.h"
#include "server/planning/thread_pool.h"
#include "server/questions/live_topology.h"

namespace remesh::server {

namespace coordination {
class Coordinator;
}

// The other end of an Attach stream. Called on the core's strand; must not block. What an event
// sends to many streams is sent in several turns of the strand.
class WorkerSink {
 public:
  virtual ~WorkerSink() = default;
  // The stream may begin; called once, first or just after Close(). False: it has ended already,
  // and the core forgets it.
  virtual bool Begin(StreamId stream) = 0;
  virtual void Send(v1::AttachResponse message) = 0;
  // Makes the commands when they can be written, in their place among the messages.
  virtual void SendLater(LaterCommands commands) = 0;
  virtual void Close(const absl::Status& status) = 0;
};

// The other end of a Watch stream. Called on the core's strand; must not block.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  virtual void Offer(std::shared_ptr<const Reply> value) = 0;
  virtual void End(const absl::Status& status) = 0;
  // Whether no caller waits for a value any more.
  virtual bool Ended() = 0;
};

// Receives events of the core for logs and metrics. Called on the core's strand, except OnPlanned
// and OnFatal, which any thread may call.
class CoreObserver {
 public:
  virtual ~CoreObserver() = default;
  virtual void OnLog(const Note& note) = 0;
  virtual void OnExecutionEnded(const ExecutionEnded& ended) = 0;
  // A question was answered with a plan. `compute_seconds`: how long that plan took when it was
  // computed.
  virtual void OnPlanned(const v1::Planning& planning, double compute_seconds) = 0;
  // A round of a world ended; `duration` is 0 if it is not known. Called on the coordinator's
  // thread.
  virtual void OnRoundEnded(coordination::Ending, absl::Duration) {}
  // About once a second, on the coordinator's thread.
  virtual void OnWorlds(const coordination::WorldFigures&) {}
  // A few times a second.
  virtual void OnGauges(const ControllerGauges& gauges, const v1::CacheStats& plans) = 0;
  // The journal cannot be written: the process must end, because no further decision may be made.
  virtual void OnFatal(const absl::Status& status) = 0;
};

// The running controller: owns its strand, journal, planning threads and clock, and carries out its
// actions. Thread-safe.
class Core {
 public:
  struct Options {
    ControllerOptions controller;
    int64_t plan_cache_bytes = int64_t{256} << 20;
    int64_t plan_cache_entries = 0;  // 0: no limit
    absl::Duration plan_cache_age = absl::InfiniteDuration();
    PlanStore::Options plan_store;  // an empty path: plans are kept in memory only
    int planner_threads = 2;        // for large plans; small ones and executions have other threads
    PlanningLimits planning;
    int stream_threads = 8;      // for GetHostProgram, and as many again for other streams
    size_t waiting_max = 10000;  // questions that may wait for a thread
    // GetHostPrograms that may wait: all hosts of a move ask at once. Each caller may have a quarter,
    // and all hosts may be one caller: four times as many as there may be hosts.
    size_t programs_waiting_max = 80000;
    size_t message_bytes_max = size_t{64} << 20;  // of one that gRPC sends
  };

  // Reads the journal. DATA_LOSS (JOURNAL_CORRUPT) when its records make no sense. `observer` must
  // outlive the core.
  static absl::StatusOr<std::unique_ptr<Core>> Start(Options options,
                                                     std::unique_ptr<Journal> journal,
                                                     CoreObserver& observer);
  // REQUIRES: Shutdown() was called, and no sink calls the core any more.
  ~Core();

  using ReplyFn = OpenCalls::ReplyFn;
  // `reply` is called exactly once, on some thread; UNAVAILABLE (SHUTTING_DOWN) after Shutdown().
  // Callers take turns, and after a few calls the strand runs other tasks that have come. So
  // however many calls one caller makes, other callers wait for at most one call of each caller,
  // and workers for a few calls. Calls of one caller keep their order.
  // A call whose `gone` returns true in its turn is not made (CANCELLED); null: it always is.
  using Gone = OpenCalls::Gone;
  void Call(Request request, ReplyFn reply, const std::string& caller = "", Gone gone = nullptr) {
    Call(NewCall(), std::move(request), std::move(reply), caller, std::move(gone));
  }
  // The same, with an id that the caller of this has for EndCall().
  void Call(CallId id, Request request, ReplyFn reply, const std::string& caller, Gone gone);
  CallId NewCall() { return next_id_++; }
  // The caller of an open call has gone: the call ends (CANCELLED) and is dropped. What it asked
  // for goes on. In the turn of `caller`, so after the call. Nothing happens if the call has ended.
  void EndCall(CallId id, const std::string& caller);

  // The stream begins in the turn of `caller`.
  void OpenStream(std::shared_ptr<WorkerSink> sink, const std::string& caller);
  // Calls `handled` once the message has had its effect. With a caller, message and end wait for
  // the caller's turn. The first message of a stream, and an end before it is handled, must have
  // one: otherwise a client that opens and resets streams in a loop starves the others. Later
  // messages must have none.
  // Heartbeats wait, in order with the stream's other messages, for the next message of any stream
  // or the next tick.
  void OnStreamMessage(StreamMessage message, absl::AnyInvocable<void()> handled,
                       const std::optional<std::string>& caller = std::nullopt);
  void OnStreamEnded(StreamId stream, const std::optional<std::string>& caller = std::nullopt);

  // Begin and end of a watch wait for the caller's turn, like its calls and in order with them. A
  // watch whose sink has ended by then does not begin.
  WatchId Watch(const std::string& name, std::shared_ptr<WatchSink> sink,
                const std::string& caller);
  // Gives the place back only when nothing of the watch is left here, so a caller who begins and
  // ends watches in a loop has no more of them waiting than OpenWatches allows. REQUIRES: Watch()
  // was called for the place's caller.
  void EndWatch(WatchId watch, OpenWatches::Place place);

  // As of the last event: see remesh_journal_behind.
  bool journal_behind() const { return journal_behind_; }
  // See remesh_journal_lost.
  bool journal_lost() const { return journal_lost_; }

  // The topology that an empty topology in a request stands for now; may be null.
  std::shared_ptr<const planner::Topology> topology() { return topology_.Get(); }
  PlanCache& plans() { return plans_; }
  OpenWatches& open_watches() { return open_watches_; }
  // The present epochs of worlds, for calls that carry a fence.
  coordination::Fences& fences() { return fences_; }
  // Worlds of processes. It has a thread of its own and waits for nothing else here, except that a
  // world forms only once the controller has written its epoch.
  coordination::Coordinator& coordinator() { return *coordinator_; }
  CoreObserver& observer() { return observer_; }
  Precomputer& precomputer() { return precomputer_; }
  PlanDesk& desk() { return desk_; }
  ThreadPool& quick_planners() { return quick_planners_; }
  ThreadPool& planners() { return planners_; }
  // For calls that look into the plan cache and its disk but plan nothing, so that they do not wait
  // for calls that plan.
  ThreadPool& lookups() { return lookups_; }
  // Write what the controller answers, and the values of watches. gRPC serializes a value when its
  // write starts; on the strand, a large state with many watchers, or asked for often, would hold
  // up everyone. However many tasks wait, none is refused.
  ThreadPool& writers() { return writers_; }
  // Write what members of worlds are sent, where that is large: apart from the writers, so that
  // members do not wait for callers of other services.
  ThreadPool& talkers() { return talkers_; }
  // For streams other than those of programs().
  StreamThreads& streamers() { return streamers_; }
  // For GetHostProgram, which workers wait for in the middle of a move, so that other streams do
  // not hold them up.
  StreamThreads& programs() { return programs_; }

  // See JournalBackups::Take(). Blocks.
  absl::StatusOr<JournalBackup> BackUpJournal(absl::FunctionRef<bool()> wanted) {
    return backups_->Take(wanted);
  }

  // Puts settings in force; see Reconfigure and LiveOptions. UNAVAILABLE when the controller does
  // not answer within a second; the settings may still come into force later. Repeating the call
  // does no harm. Blocks.
  absl::Status SetLive(LiveOptions options, const MemoryTier::Limits& plans);
  // Ends executions (see remesh::Drain): gives running ones `patience` to end by themselves, then
  // fails those that are not yet decided. Returns when no execution runs, or soon after. Blocks
  // unless no execution runs.
  void Drain(std::chrono::nanoseconds patience);

  // Ends every call, stream and watch with UNAVAILABLE and refuses new ones. Returns when all have
  // ended. Idempotent.
  void Shutdown();

 private:
  Core(Options options, CoreObserver& observer);
  absl::Status Restore(std::unique_ptr<Journal> journal);

  template <typename F>
  bool Post(F task);
  void Handle(Event event);
  void ForgetWorlds(SaveWorlds& worlds);
  void StartCoordinator(const SaveWorlds& known);
  void OnJournalLost(const absl::Status& why);
  void Perform(Actions actions);
  // Runs the task on the strand: in the caller's turn, or without one in that of workers.
  void PostFor(const std::optional<std::string>& caller, FairQueue::Task task);
  // Sees to it that the strand does not free it.
  void KeepLayout(std::shared_ptr<const PlacedState> placed);
  bool AwaitNoExecution(absl::Duration patience);
  void Do(SendToWorker& action);
  void Do(SendLater& action);
  void Do(CloseStream& action);
  void Do(Persist& action);
  void Do(ReplyTo& action);
  void Do(Notify& action);
  void Do(server::EndWatch& action);
  void Do(StartPlanning& action);
  void PlanTargets(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker);
  // Makes the move to `target` by the plan that was found.
  void FinishTargets(std::shared_ptr<const StartPlanning> action, PlanDesk::Asker asker,
                     std::shared_ptr<const PlacedState> target, PlanCache::Answer answer,
                     Timestamp start);
  void FinishPlanning(uint64_t id, absl::StatusOr<PlannedExecution> move);
  void Do(ReleasePlan& action);
  void Do(TopologyChanged& action);
  void Do(ExecutionEnded& action);
  void Do(Note& action);
  void Tick();
  void ShowGauges();

  const Options options_;
  CoreObserver& observer_;
  const std::unique_ptr<PlanStore> plan_store_;  // may be null
  PlanCache plans_;
  std::atomic<uint64_t> next_id_{1};

  LiveTopology topology_;
  LastReferences layouts_;  // of large states

  coordination::Fences fences_;
  std::unique_ptr<coordination::Coordinator> coordinator_;
  OpenWatches open_watches_;  // outlives every task that holds a place

  // Used only by tasks of the strand.
  std::unique_ptr<Controller> controller_;
  OpenCalls calls_;
  absl::flat_hash_map<StreamId, std::shared_ptr<WorkerSink>> streams_;
  absl::flat_hash_map<WatchId, std::shared_ptr<WatchSink>> watches_;
  bool shut_down_ = false;
  Timestamp next_gauges_{0};  // not before this

  // As of the last event.
  std::atomic<int64_t> running_ = 0;  // executions
  std::atomic<bool> journal_behind_ = false;
  std::atomic<bool> journal_lost_ = false;

  ThreadPool quick_planners_;
  ThreadPool planners_;
  ThreadPool lookups_;
  ThreadPool long_lookups_;
  ThreadPool writers_;
  ThreadPool talkers_;
  StreamThreads streamers_;
  StreamThreads programs_;
  PlanDesk desk_;
  Precomputer precomputer_;
  Strand strand_;
  CallerTurns callers_;  // with calls, watches and new streams
  TurnLane messages_;    // of streams, and their ends
  TurnLane commands_;    // to streams
  std::unique_ptr<JournalWriter> writer_;
  std::unique_ptr<JournalBackups> backups_;

  absl::Mutex ticker_mutex_;
  bool ticker_stops_ ABSL_GUARDED_BY(ticker_mutex_) = false;
  std::thread ticker_;
};

}  // namespace remesh::server
